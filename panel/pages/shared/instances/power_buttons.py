"""The power buttons of an instance, each with the reason why it is disabled."""

from flask import url_for

from panel.pages.shared.area import get_endpoint_prefix, is_operator_area, permission_error
from panel.services.instances import action_catalog
from panel.services.instances.action_catalog import ACTIONS


def list_buttons(instance):
    """Return the actions of the area: operators can also suspend the instance."""
    if not is_operator_area():
        return action_catalog.POWER_BUTTONS
    return (*action_catalog.POWER_BUTTONS, ACTIONS["unsuspend" if instance.suspended_reason else "suspend"])


def iter_power_buttons(instance):
    """Yield (action, reason why it is disabled or None, confirmation question or None)."""
    permission_reason = permission_error("instances.power")
    for action in list_buttons(instance):
        reason = permission_reason or action_catalog.disabled_reason(instance, action, by_operator=is_operator_area())
        yield action, reason, action.get_confirmation(instance)


def power_url(instance, action):
    """Return the URL in this area that runs the action."""
    if action.name in ("suspend", "unsuspend"):
        suspension_action = "suspend" if action.name == "suspend" else "resume"
        return url_for("admin_instances.suspension", instance_id=instance.id, action=suspension_action)
    return url_for(f"{get_endpoint_prefix()}instances.power", instance_id=instance.id, action=action.name)
