"""Attaching, detaching and deleting disks of an instance."""

from flask import abort

from panel.auth.browser_session import actor
from panel.pages.shared.area import at, found, operating, page
from panel.services import disks
from panel.web.htmx import did

DONE = {
    "attach": "Attachment of the disk requested.",
    "detach": "Detachment of the disk requested.",
    "delete": "Deletion of the disk requested.",
}


@page("POST", "/<instance_id>/disk/<disk_id>/<action>", can="instances.manage")
def disk(instance_id, disk_id, action):
    if action not in DONE:
        abort(404)
    instance = found(instance_id)
    wanted = disks.get(instance, disk_id)
    task = getattr(disks, action)(wanted, actor=actor(), by_operator=operating())
    message = DONE[action] if task else "It is so already."
    return did(message, at(instance, "storage"))
