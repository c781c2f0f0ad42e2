"""Rescue: an instance that is off boots a small system of its own, with its disks attached behind that one's."""

import secrets

from sqlalchemy import select

from panel.core.db import session
from panel.core.errors import Conflict
from panel.models import Image, Rescue, Task
from panel.models.tasks import OPEN_STATUSES
from panel.services.instances.actions import enqueue
from panel.services.state_machine import REASONS, TASK_RUNNING

RESCUE_IMAGE_NAMES = ("rescue", "tiny", "simulated-linux")
"""Names of images that can mend others, the best one first."""

RESCUE_TASK_KINDS = ("instance_rescue_enable", "instance_rescue_disable")
NOT_STOPPED_MESSAGE = "The instance runs. Shut it down first."


def describe_state(instance):
    """What programs are told: `active`, and while it is, `since` when and who may sign in with what."""
    found = session.get(Rescue, instance.id)
    if found is None:
        return {"active": False, "since": None}
    return {"active": True, "since": found.since, "username": found.username, "password": found.password}


def find_rescue_image():
    """The image that rescues, or None when there is none."""
    usable = select(Image).where(Image.name.in_(RESCUE_IMAGE_NAMES), Image.status == "available")
    found = {image.name: image for image in session.scalars(usable)}
    return next((found[name] for name in RESCUE_IMAGE_NAMES if name in found), None)


def switch(instance, enable, *, actor, by_operator=False):
    """Starts the instance into rescue, or ends that; it then runs its own system again if it was on. Returns the task,
    or None when it is so already."""
    active = session.get(Rescue, instance.id) is not None
    wanted = RESCUE_TASK_KINDS[0] if enable else RESCUE_TASK_KINDS[1]
    going_on = select(Task).where(
        Task.resource_id == instance.id, Task.kind.in_(RESCUE_TASK_KINDS), Task.status.in_(OPEN_STATUSES)
    )
    if (task := session.scalar(going_on)) and task.kind == wanted:
        return task
    ensure_switchable(instance, enable, by_operator, task)
    if active == enable:
        return None
    if not enable:
        return enqueue(instance, "rescue_disable", "exclusive", actor=actor, arguments={"on": instance.power == "on"})
    if instance.power == "on":
        raise Conflict(NOT_STOPPED_MESSAGE, reason="not_stopped")
    image = find_rescue_image()
    if image is None:
        raise Conflict("The platform has no rescue system yet. Contact support.", reason="rescue_unavailable")
    password = secrets.token_urlsafe(12)
    return enqueue(
        instance, "rescue_enable", "exclusive", actor=actor, arguments={"image_id": image.id}, secret=password
    )


def ensure_switchable(instance, enable, by_operator, going_on):
    if going_on or instance.state == "migrating" or instance.rebuilding:
        raise Conflict(REASONS[TASK_RUNNING], reason=TASK_RUNNING)
    if not instance.deployed:
        raise Conflict(REASONS["not_deployed"], reason="not_deployed")
    if instance.suspended_reason and (enable or not by_operator):
        raise Conflict(REASONS["suspended"], reason="suspended")


def record_entered(instance, password, at):
    """It runs the rescue system since then."""
    session.add(Rescue(instance_id=instance.id, since=at, password=password))


def record_left(instance):
    """Nothing of it is left, the password neither."""
    found = session.get(Rescue, instance.id)
    if found:
        session.delete(found)
