"""Live-snapshot sessions (specification 4.8): try something on a running machine, then commit or discard the
changes."""

from sqlalchemy import or_, select

from panel.core import clock, jobs
from panel.core.db import session
from panel.core.errors import Conflict, Invalid
from panel.core.messages import message
from panel.core.task_kinds import task_kind
from panel.models import Forge, Task
from panel.models.tasks import OPEN_STATUSES
from panel.services.state_machine import ensure_no_error, make_problem

task_kind("forge_enable", "Live session start")
task_kind("forge_commit", "Live session commit")
task_kind("forge_discard", "Live session discard")

MAX_REMEMBERED_SESSIONS = 10
"""Sessions of an instance that are stored (specification 2.3)."""

HALF_COMMITTED_MESSAGE = message("Part of the changes is in the disks already. Commit the session again.")


def find_latest(instance):
    """Return the newest session of the instance, or None."""
    query = select(Forge).where(Forge.instance_id == instance.id).order_by(Forge.id.desc()).limit(1)
    return session.scalar(query)


def describe_state(instance):
    newest = find_latest(instance)
    return {"active": newest is not None and newest.active, "session": newest}


def is_active(instance):
    """Return whether overlays of a session are, or may be, on the disks."""
    newest = find_latest(instance)
    return newest is not None and (newest.active or newest.status == "creating")


def ensure_not_active(instance):
    """Raise during a session, whose disks must not be changed otherwise."""
    if is_active(instance):
        raise make_problem("already_active")


def action_error(instance, action):
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


def is_busy(instance):
    """Return whether other work on the machine is open. The creation of the session itself has its own reason."""
    query = select(Task.id).where(Task.resource_id == instance.id, Task.status.in_(OPEN_STATUSES))
    blocking = or_(Task.lock != "light", Task.kind.like("instance_%"))
    return session.scalar(query.where(blocking, Task.kind != "forge_enable").limit(1)) is not None


def ensure_allowed(instance, action):
    ensure_no_error(action_error(instance, action))


def enable(instance, *, actor, disk_ids=None):
    """Start a session on the disks, by default the first one. Return it with its task."""
    ensure_allowed(instance, "enable")
    disks = get_disks(instance, disk_ids)
    forge = Forge(instance=instance, disks=[{"id": disk.id, "name": disk.name, "size": disk.size} for disk in disks])
    session.add(forge)
    session.flush()
    task = enqueue(forge, "enable", actor)
    purge_old(instance)
    return forge, task


def get_disks(instance, disk_ids):
    if not disk_ids:
        return instance.disks[:1]
    attached = {disk.id: disk for disk in instance.disks if disk.attached}
    if set(disk_ids) - attached.keys():
        raise Invalid(message("The instance has no such disk."), disk_ids=message("The instance has no such disk."))
    return [attached[disk_id] for disk_id in dict.fromkeys(disk_ids)]


def commit(instance, *, actor):
    """Keep the changes while the guest continues to run. Return the session and the task."""
    return end_session(instance, "commit", "committing", actor)


def discard(instance, *, actor):
    """Discard the changes: the guest is powered off and boots from the disks as they were. Return the session and the
    task."""
    return end_session(instance, "discard", "discarding", actor)


def end_session(instance, action, status, actor):
    ensure_allowed(instance, action)
    forge = find_latest(instance)
    if action == "discard" and forge.merging:
        raise Conflict(HALF_COMMITTED_MESSAGE, reason="session_failed")
    forge.status, forge.error = status, None
    return forge, enqueue(forge, action, actor)


def enqueue(forge, action, actor):
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


def purge_old(instance):
    query = (
        select(Forge).where(Forge.instance_id == instance.id).order_by(Forge.id.desc()).offset(MAX_REMEMBERED_SESSIONS)
    )
    for forge in session.scalars(query):
        session.delete(forge)
    session.flush()
    session.expire(instance, ["forges"])


def record_outcome(forge, status, error=None):
    """Record the status that the worker reached."""
    forge.status, forge.error = status, error
    forge.ended_at = clock.now() if status in ("committed", "discarded", "failed") else None
    if forge.ended_at:
        forge.merging = False
