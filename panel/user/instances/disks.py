"""Attaching, detaching and deleting disks of an instance."""

from flask import abort, url_for

from panel.auth.browser import actor, page_can, viewer
from panel.htmx import did
from panel.services import disks, instances
from panel.user.instances import bp

DONE = {
    "attach": "The disk is being attached.",
    "detach": "The disk is being detached.",
    "delete": "The disk is being deleted.",
}


@bp.post("/<instance_id>/disk/<disk_id>/<action>")
@page_can("instances.manage")
def disk(instance_id, disk_id, action):
    if action not in DONE:
        abort(404)
    task = getattr(disks, action)(disks.get(instances.get(instance_id, viewer()), disk_id), actor=actor())
    message = DONE[action] if task else "It is so already."
    return did(message, url_for(".tab", instance_id=instance_id, tab="storage"))
