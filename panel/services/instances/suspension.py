"""Suspending an instance: it is off and its owner cannot start it. Afterwards its power is restored."""

from sqlalchemy import select

from panel.core import events
from panel.core.db import session, with_lock
from panel.core.task_kinds import task_kind
from panel.models import Instance, Task
from panel.services.instances.actions import enqueue, find_open_task
from panel.services.state_machine import ensure_allowed

task_kind("instance_suspend", "Suspend")
task_kind("instance_unsuspend", "Resume")

POWER_ON_TASK_KINDS = (
    "instance_deploy",
    "instance_reinstall",
    "instance_start",
    "instance_restart",
    "instance_unsuspend",
)


def suspend(instance: Instance, *, reason: str, actor: str) -> Task | None:
    """Suspend for a `reason`: `user`, `admin` or `network`. Return the task, or None when it is suspended already. A
    reason of the platform replaces the owner's, so that the owner cannot unsuspend it."""
    ensure_allowed(instance, "suspend", by_operator=True)
    current = lock_instance(instance)
    if current.suspended_reason:
        if current.suspended_reason == "user":
            current.suspended_reason = reason
        return None
    will_be_on = any(find_open_task(current, kind) for kind in POWER_ON_TASK_KINDS)
    current.suspended_reason = reason
    current.resume_power = "on" if current.power == "on" or will_be_on else "off"
    events.record("instance.suspended", "instance", current, actor=actor, reason=reason)
    return enqueue(current, "suspend", "light", actor=actor)


def unsuspend(instance: Instance, *, actor: str) -> Task | None:
    """End the suspension. Return the task that restores the power, or None when it is not suspended."""
    ensure_allowed(instance, "unsuspend", by_operator=True)
    current = lock_instance(instance)
    if not current.suspended_reason:
        return None
    reason, power = current.suspended_reason, current.resume_power
    current.suspended_reason = current.resume_power = None
    events.record("instance.unsuspended", "instance", current, actor=actor, reason=reason)
    return enqueue(current, "unsuspend", "light", actor=actor, arguments={"power": power})


def lock_instance(instance: Instance) -> Instance:
    """Return the instance, read again and locked, so that concurrent suspensions wait."""
    query = select(Instance).where(Instance.id == instance.id)
    return session.scalars(with_lock(query, key_share=True, of=Instance)).one()
