"""Root's password and keys of a running guest."""

from flask import url_for

from panel.auth.browser import actor, page_can, viewer
from panel.forms import Form
from panel.htmx import go, render, say
from panel.schemas.guests import PushKeysIn
from panel.services import instances
from panel.user import once
from panel.user.instances import bp
from panel.user.instances.show import mine, shown


@bp.post("/<instance_id>/reset-password")
@page_can("instances.manage")
def reset_password(instance_id):
    instance = mine(instance_id)
    _, password = instances.reset_password(instance, actor=actor())
    once.keep(instance.id, password)
    say("The password is being set.", "info")
    return go(url_for(".show", instance_id=instance_id))


@bp.post("/<instance_id>/ssh-keys")
@page_can("instances.manage")
def push_keys(instance_id):
    instance = mine(instance_id)
    form = Form(PushKeysIn)
    if form.submit(lambda **data: instances.push_keys(instance, account=viewer(), actor=actor(), **data)):
        say("The keys are being put into the guest.", "info")
        return go(url_for(".show", instance_id=instance_id))
    found = shown(instance_id, "settings", pushing=form)
    return render("user/instances/show.html", "settings", status=form.status, **found)
