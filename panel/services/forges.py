"""Live-snapshot sessions (FRG-01 to FRG-21): try something on a running machine, then commit or discard the
changes."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Select, or_, select

from panel.core import clock, jobs
from panel.core.db import session
from panel.core.errors import Conflict, Invalid
from panel.core.messages import message
from panel.core.task_kinds import task_kind
from panel.models import Disk, Forge, Instance, Task
from panel.models.tasks import OPEN_STATUSES
from panel.services.state_machine import ensure_no_error, make_problem

task_kind("forge_enable", "Live session start")
task_kind("forge_commit", "Live session commit")
task_kind("forge_discard", "Live session discard")

MAX_REMEMBERED_SESSIONS = 10
"""Sessions of an instance that are stored (FRG-20)."""

HALF_COMMITTED_MESSAGE = message("Some changes are already written to the disks. Commit the session again.")


def find_latest(instance: Instance) -> Forge | None:
    """Return the newest session of the instance, or None."""
    return session.scalar(select_newest(instance))


def select_newest(instance: Instance) -> Select[Forge]:
    return select(Forge).where(Forge.instance_id == instance.id).order_by(Forge.id.desc()).limit(1)


def describe_state(instance: Instance) -> dict[str, Any]:
    newest = find_latest(instance)
    return {"active": newest is not None and newest.active, "session": newest}


def is_active(instance: Instance) -> bool:
    """Return whether overlays of a session are, or may be, on the disks."""
    newest = find_latest(instance)
    return newest is not None and (newest.active or newest.status == "creating")


def ensure_not_active(instance: Instance) -> None:
    """Raise during a session, whose disks must not be changed otherwise."""
    if is_active(instance):
        raise make_problem("already_active")


def action_error(instance: Instance, action: str) -> str | None:
    """Return the reason why the action (`enable`, `commit`, `discard`) is refused now, or None. With several reasons
    the first one counts (decision OP-13)."""
    newest = find_latest(instance)
    if instance.suspended_reason:
        return "suspended"
    if instance.migrating or is_busy(instance):
        return "task_running"
    if instance.state != "running":
        return "not_running"
    if action == "enable":
        return "already_active" if newest and (newest.active or newest.status == "creating") else None
    if newest is None or newest.status in ("committed", "discarded"):
        return "no_active_session"
    return {"creating": "session_creating", "failed": "session_failed"}.get(newest.status)


def is_busy(instance: Instance) -> bool:
    """Return whether other work on the machine is open. The creation of the session itself has its own reason."""
    query = select(Task.id).where(Task.resource_id == instance.id, Task.status.in_(OPEN_STATUSES))
    blocking = or_(Task.lock != "light", Task.kind.like("instance_%"))
    return session.scalar(query.where(blocking, Task.kind != "forge_enable").limit(1)) is not None


def ensure_allowed(instance: Instance, action: str) -> None:
    ensure_no_error(action_error(instance, action))


def enable(instance: Instance, *, actor: str, disk_ids: Sequence[str] | None = None) -> tuple[Forge, Task]:
    """Start a session on the disks, by default the first one. Return it with its task."""
    ensure_allowed(instance, "enable")
    disks = get_disks(instance, disk_ids)
    forge = Forge(instance=instance, disks=[{"id": disk.id, "name": disk.name, "size": disk.size} for disk in disks])
    session.add(forge)
    session.flush()
    task = enqueue(forge, "enable", actor)
    purge_old(instance)
    return forge, task


def get_disks(instance: Instance, disk_ids: Sequence[str] | None) -> list[Disk]:
    if not disk_ids:
        return instance.disks[:1]
    attached = {disk.id: disk for disk in instance.disks if disk.attached}
    if set(disk_ids) - attached.keys():
        raise Invalid(message("The instance has no such disk."), disk_ids=message("The instance has no such disk."))
    return [attached[disk_id] for disk_id in dict.fromkeys(disk_ids)]


def commit(instance: Instance, *, actor: str) -> tuple[Forge, Task]:
    """Keep the changes while the guest continues to run. Return the session and the task."""
    return end_session(instance, "commit", "committing", actor)


def discard(instance: Instance, *, actor: str) -> tuple[Forge, Task]:
    """Discard the changes: the guest is powered off and boots from the disks as they were. Return the session and the
    task."""
    return end_session(instance, "discard", "discarding", actor)


def end_session(instance: Instance, action: str, status: str, actor: str) -> tuple[Forge, Task]:
    ensure_allowed(instance, action)
    forge = session.scalars(select_newest(instance)).one()
    if action == "discard" and forge.merging:
        raise Conflict(HALF_COMMITTED_MESSAGE, reason="session_failed")
    forge.status, forge.error = status, None
    return forge, enqueue(forge, action, actor)


def enqueue(forge: Forge, action: str, actor: str) -> Task:
    instance = forge.instance
    return jobs.enqueue(
        f"forge_{action}",
        "instance",
        instance,
        lock="exclusive",
        actor=actor,
        hypervisor_id=instance.hypervisor_id,
        arguments={"forge_id": forge.id},
    )


def purge_old(instance: Instance) -> None:
    query = (
        select(Forge).where(Forge.instance_id == instance.id).order_by(Forge.id.desc()).offset(MAX_REMEMBERED_SESSIONS)
    )
    for forge in session.scalars(query):
        session.delete(forge)
    session.flush()
    session.expire(instance, ["forges"])


def record_outcome(forge: Forge, status: str, error: str | None = None) -> None:
    """Record the status that the worker reached."""
    forge.status, forge.error = status, error
    forge.ended_at = clock.now() if status in ("committed", "discarded", "failed") else None
    if forge.ended_at:
        forge.merging = False
