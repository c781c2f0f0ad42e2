"""Power, destroying, and editing of an instance."""

from flask import abort, request, url_for

from panel.auth.browser import actor, page_can
from panel.errors import Invalid
from panel.forms import Form
from panel.htmx import did, go, render, say
from panel.schemas.instances import InstancePatch, Rename
from panel.services import instances
from panel.user.instances import bp
from panel.user.instances.controls import CONTROLS
from panel.user.instances.show import mine, shown


@bp.post("/<instance_id>/power/<action>")
@page_can("instances.power")
def power(instance_id, action):
    control = next((each for each in CONTROLS if each.action == action), None) or abort(404)
    instance = mine(instance_id)
    task = instances.act(instance, action, actor=actor())
    message = control.done.format(instance.display_name) if task else "It is so already."
    return did(message, url_for(".show", instance_id=instance.id))


@bp.post("/<instance_id>/rename")
@page_can("instances.manage")
def rename(instance_id):
    instance = mine(instance_id)
    form = Form(Rename)
    if not form.submit(lambda display_name: instances.update(instance, display_name=display_name)):
        raise Invalid(form.errors.get("display_name") or form.errors[""])
    return did("The name is changed.", url_for(".show", instance_id=instance_id))


@bp.post("/<instance_id>/settings")
@page_can("instances.manage")
def change(instance_id):
    instance = mine(instance_id)
    form = Form(InstancePatch, known=instance)
    if form.submit(lambda **data: instances.update(instance, actor=actor(), **data)):
        say("The settings are changed.")
        return go(url_for(".tab", instance_id=instance_id, tab="settings"))
    return render(
        "user/instances/show.html", "settings", status=form.status, **shown(instance_id, "settings", form=form)
    )


@bp.post("/<instance_id>/destroy")
@page_can("instances.delete")
def destroy(instance_id):
    instance = mine(instance_id)
    if request.form.get("typed", "").strip() != instance.display_name:
        raise Invalid("The name that you typed is not the name of this instance. Nothing was destroyed.")
    instances.destroy(instance, actor=actor())
    say(f"{instance.display_name} is being destroyed.", "info")
    return go(url_for(".show", instance_id=instance_id))
