"""Rescue: an instance that is off boots a small system, with its own disks attached behind that system's disk."""

import secrets
from datetime import datetime
from typing import Any

from sqlalchemy import select

from panel.core.db import session
from panel.core.errors import Conflict
from panel.core.messages import message
from panel.core.task_kinds import task_kind
from panel.models import Image, Instance, Rescue, Task
from panel.models.tasks import OPEN_STATUSES
from panel.services.instances.actions import enqueue
from panel.services.state_machine import TASK_RUNNING, make_problem

task_kind("instance_rescue_enable", "Start of rescue")
task_kind("instance_rescue_disable", "End of rescue")

RESCUE_IMAGE_NAMES = ("rescue", "tiny", "simulated-linux")
"""Names of images that can be used for rescue, the preferred one first."""

RESCUE_TASK_KINDS = ("instance_rescue_enable", "instance_rescue_disable")
NOT_STOPPED_MESSAGE = message("The instance is running. Shut it down first.")
RESCUE_MESSAGES = {
    True: (message("Start of the rescue system requested."), message("The rescue system is already active.")),
    False: (message("End of the rescue requested."), message("The rescue system is not active.")),
}
"""When it is switched on or off: the message after the request, and the one when nothing had to be done."""


def describe_state(instance: Instance) -> dict[str, Any]:
    """Return `active` and, while it is, `since`, `username` and `password`."""
    row = session.get(Rescue, instance.id)
    if row is None:
        return {"active": False, "since": None}
    return {"active": True, "since": row.since, "username": row.username, "password": row.password}


def find_rescue_image() -> Image | None:
    """Return the image for rescue, or None when there is none."""
    query = select(Image).where(Image.name.in_(RESCUE_IMAGE_NAMES), Image.status == "available")
    images = {image.name: image for image in session.scalars(query)}
    return next((images[name] for name in RESCUE_IMAGE_NAMES if name in images), None)


def switch(instance: Instance, enable: bool, *, actor: str, by_operator: bool = False) -> Task | None:
    """Start rescue, or end it; then the instance runs its own system again if it was on. Return the task, or None when
    nothing has to change."""
    active = session.get(Rescue, instance.id) is not None
    task_kind = RESCUE_TASK_KINDS[0] if enable else RESCUE_TASK_KINDS[1]
    query = select(Task).where(
        Task.resource_id == instance.id, Task.kind.in_(RESCUE_TASK_KINDS), Task.status.in_(OPEN_STATUSES)
    )
    if (task := session.scalar(query)) and task.kind == task_kind:
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
        raise Conflict(message("The platform has no rescue system yet. Contact support."), reason="rescue_unavailable")
    password = secrets.token_urlsafe(12)
    return enqueue(
        instance, "rescue_enable", "exclusive", actor=actor, arguments={"image_id": image.id}, secret=password
    )


def get_result_message(enable: bool, task: Task | None) -> str:
    requested, unchanged = RESCUE_MESSAGES[enable]
    return requested if task else unchanged


def ensure_switchable(instance: Instance, enable: bool, by_operator: bool, open_task: Task | None) -> None:
    if open_task or instance.state == "migrating" or instance.rebuilding:
        raise make_problem(TASK_RUNNING)
    if not instance.deployed:
        raise make_problem("not_deployed")
    if instance.suspended_reason and (enable or not by_operator):
        raise make_problem("suspended")


def record_entered(instance: Instance, password: str, at: datetime) -> None:
    """Record that the instance is in rescue since `at`."""
    session.add(Rescue(instance_id=instance.id, since=at, password=password))


def record_left(instance: Instance) -> None:
    """Delete the row of the rescue, with its password."""
    row = session.get(Rescue, instance.id)
    if row:
        session.delete(row)
