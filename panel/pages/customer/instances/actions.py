"""Power of an instance, and destroying it."""

from flask import abort, request, url_for

from panel.auth.browser_session import actor, page_can
from panel.core.errors import Invalid
from panel.pages.customer.instances import bp
from panel.pages.shared.area import found
from panel.pages.shared.instances.power_buttons import CONTROLS
from panel.services import instances
from panel.web.htmx import did, go, say


@bp.post("/<instance_id>/power/<action>")
@page_can("instances.power")
def power(instance_id, action):
    control = next((each for each in CONTROLS if each.action == action), None) or abort(404)
    instance = found(instance_id)
    task = instances.act(instance, action, actor=actor())
    message = control.requested if task else f"{instance.display_name} is already {control.useless}."
    return did(message, url_for(".show", instance_id=instance.id))


@bp.post("/<instance_id>/destroy")
@page_can("instances.delete")
def destroy(instance_id):
    instance = found(instance_id, even_suspended=True)
    if request.form.get("typed", "").strip() != instance.display_name:
        wrong = "That is not the name of this instance. Nothing was destroyed."
        raise Invalid(wrong, typed=wrong)
    instances.destroy(instance, actor=actor())
    say(f"{instance.display_name} is being destroyed.", "info")
    return go(url_for(".show", instance_id=instance_id))
