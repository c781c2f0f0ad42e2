"""Attaching, detaching and deleting disks of an instance."""

from flask import abort

from panel.auth.browser_session import get_current_actor
from panel.pages.shared.area import get_instance, is_operator_area, route, tab_url
from panel.services import disks
from panel.web.htmx import build_action_response


@route("POST", "/<instance_id>/disk/<disk_id>/<action>", can="instances.manage")
def disk(instance_id, disk_id, action):
    if action not in disks.DISK_ACTION_MESSAGES:
        abort(404)
    instance = get_instance(instance_id)
    row = disks.get(instance, disk_id)
    task = getattr(disks, action)(row, actor=get_current_actor(), by_operator=is_operator_area())
    return build_action_response(disks.get_result_message(action, task), tab_url(instance, "storage"))
