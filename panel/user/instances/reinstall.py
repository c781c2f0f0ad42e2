"""Reinstalling an instance: what the new system is to be, and its name typed to confirm."""

from flask import url_for

from panel.auth.browser import actor, page_can, require, viewer
from panel.errors import Conflict, Invalid
from panel.forms import Form
from panel.htmx import go, render, say
from panel.schemas.base import In, Text
from panel.schemas.instances import ReinstallIn
from panel.services import instances, ssh_keys
from panel.user import once
from panel.user.instances import bp
from panel.user.instances.choices import choices
from panel.user.instances.new import NewKey, tried
from panel.user.instances.show import mine


class Typed(In):
    typed = Text(required=True)


@bp.get("/<instance_id>/reinstall")
@page_can("instances.manage")
def reinstalling(instance_id):
    instance = mine(instance_id)
    reason = instances.refusal(instance, "reinstall")
    if reason:
        raise Conflict(instances.WORDS[reason], reason=reason)
    known = {**tried(instance), "image_id": instance.image_id, "hostname": instance.hostname}
    return page(instance, Form(ReinstallIn, NewKey, Typed, known=known))


@bp.post("/<instance_id>/reinstall")
@page_can("instances.manage")
def reinstall(instance_id):
    instance = mine(instance_id)
    form = Form(ReinstallIn, NewKey, Typed)
    if form.submit(lambda **data: begin(instance, **data)):
        if form.result:
            once.keep(instance.id, form.result)
        say(f"{instance.display_name} is being reinstalled.", "info")
        return go(url_for("instances.show", instance_id=instance_id))
    return page(mine(instance_id), form, "form")


def page(instance, form, block=None):
    found = choices(form, instance)
    return render("user/instances/reinstall.html", block, status=form.status, form=form, instance=instance, **found)


def begin(instance, *, typed, key_name=None, public_key=None, key_ids=(), **wanted):
    """Begins the reinstall, with a key that is stored on the way; returns the password that was made up, if any."""
    if typed.strip() != instance.display_name:
        raise Invalid("Nothing was done.", typed="That is not the name of this instance.")
    if public_key:
        require("ssh_keys.manage")
        key_ids = [*key_ids, ssh_keys.create(viewer(), name=key_name or "new key", public_key=public_key).id]
    return instances.reinstall(instance, actor=actor(), account=viewer(), key_ids=key_ids, **wanted)[1]
