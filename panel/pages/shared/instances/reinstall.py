"""Reinstalling an instance: what the new system is to be, and its name typed to confirm."""

from panel.auth.browser_session import actor
from panel.core.errors import Conflict, Invalid
from panel.pages.shared.area import asker, at, found, page
from panel.pages.shared.instances.create_form import choices
from panel.pages.shared.instances.deploy import NewKey, chosen_keys, tried
from panel.schemas.base import In, Text
from panel.schemas.instances import ReinstallIn
from panel.services import instances
from panel.web import flash_secrets
from panel.web.forms import Form
from panel.web.htmx import go, render, say


class Typed(In):
    typed = Text(required=True)


@page("GET", "/<instance_id>/reinstall", can="instances.manage")
def reinstalling(instance_id):
    instance = found(instance_id)
    reason = instances.refusal(instance, "reinstall")
    if reason:
        raise Conflict(instances.WORDS[reason], reason=reason)
    known = {**tried(instance), "image_id": instance.image_id, "hostname": instance.hostname}
    return form_page(instance, Form(ReinstallIn, NewKey, Typed, known=known))


@page("POST", "/<instance_id>/reinstall", can="instances.manage")
def reinstall(instance_id):
    instance = found(instance_id)
    form = Form(ReinstallIn, NewKey, Typed)
    if form.submit(lambda **data: begin(instance, **data)):
        if form.result:
            flash_secrets.keep(instance.id, form.result)
        say("Reinstall requested.", "info")
        return go(at(instance, "overview"))
    return form_page(found(instance_id), form, "form")


def form_page(instance, form, block=None):
    offered = choices(form, instance)
    return render("user/instances/reinstall.html", block, status=form.status, form=form, instance=instance, **offered)


def begin(instance, *, typed, **wanted):
    """Begins the reinstall, with a key that is stored on the way; returns the password that was made up, if any."""
    if typed.strip() != instance.display_name:
        raise Invalid("Nothing was done.", typed="That is not the name of this instance.")
    wanted = chosen_keys(instance, **wanted)
    return instances.reinstall(instance, actor=actor(), account=asker(), **wanted)[1]
