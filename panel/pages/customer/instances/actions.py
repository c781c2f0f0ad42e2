"""Power actions of an instance, and destroying it."""

from flask import abort, request, url_for

from panel.auth.browser_session import get_current_actor, require_page_permission
from panel.core.errors import Invalid
from panel.pages.customer.instances import bp
from panel.pages.shared.area import get_instance
from panel.services import instances
from panel.services.instances.action_catalog import find_power_action
from panel.web.htmx import build_action_response, flash_message, redirect_to
from panel.web.translation import gettext as _


@bp.post("/<instance_id>/power/<action>")
@require_page_permission("instances.power")
def power(instance_id, action):
    power_action = find_power_action(action) or abort(404)
    instance = get_instance(instance_id)
    task = instances.run_power_action(instance, action, actor=get_current_actor())
    return build_action_response(power_action.result_message(task), url_for(".show", instance_id=instance.id))


@bp.post("/<instance_id>/destroy")
@require_page_permission("instances.delete")
def destroy(instance_id):
    instance = get_instance(instance_id, is_suspended_allowed=True)
    if request.form.get("typed", "").strip() != instance.display_name:
        error = _("The name does not match. Nothing was destroyed.")
        raise Invalid(error, typed=error)
    instances.destroy(instance, actor=get_current_actor())
    flash_message(instances.ACTIONS["destroy"].done_message, "info")
    return redirect_to(url_for(".show", instance_id=instance_id))
