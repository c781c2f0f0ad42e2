"""Snapshots of whole instances: create, roll back, delete."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import func, select

from panel.core import clock, jobs
from panel.core.db import session
from panel.core.errors import Conflict, Invalid, NotFound
from panel.core.messages import message
from panel.core.task_kinds import task_kind
from panel.models import Instance, Rescue, Snapshot, Task
from panel.models.tasks import OPEN_STATUSES
from panel.services import forges
from panel.services.state_machine import TASK_RUNNING, action_error, ensure_no_error, make_problem

task_kind("snapshot_create", "New snapshot")
task_kind("snapshot_rollback", "Snapshot rollback")
task_kind("snapshot_delete", "Snapshot removal")

MAX_SNAPSHOTS_PER_INSTANCE = 10
"""Maximum number of snapshots of an instance: each makes its disks slower and larger."""

SECURE_BOOT_MESSAGE = message(
    "An instance with secure boot cannot have snapshots. Stop it and turn off secure boot first."
)
HAS_SNAPSHOTS_MESSAGE = message("The instance has snapshots. Delete them first.")
DISKS_CHANGED_MESSAGE = message("The disks of the instance have changed since the snapshot was taken.")


def listing(instance: Instance) -> Sequence[Snapshot]:
    """Return the instance's snapshots, oldest first."""
    return session.scalars(select(Snapshot).where(Snapshot.instance_id == instance.id).order_by(Snapshot.id)).all()


def get(instance: Instance, name: str) -> Snapshot:
    conditions = Snapshot.instance_id == instance.id, Snapshot.name == name
    snapshot = session.scalar(select(Snapshot).where(*conditions))
    if snapshot is None:
        raise NotFound(message("The instance has no such snapshot."))
    return snapshot


def count_tasks_since(snapshot: Snapshot) -> int:
    """Return how many tasks have changed the instance since the snapshot was taken."""
    query = select(func.count()).where(
        Task.resource_id == snapshot.instance_id, Task.status == "completed", Task.created_at > snapshot.created_at
    )
    return session.scalars(query).one()


def ensure_no_snapshots(instance: Instance) -> None:
    """Raise Conflict if the instance has snapshots. For actions that change the disks with the snapshots in them."""
    if session.scalar(select(Snapshot.id).where(Snapshot.instance_id == instance.id).limit(1)):
        raise Conflict(HAS_SNAPSHOTS_MESSAGE, reason="has_snapshots")


def change_error(instance: Instance) -> str | None:
    """Return the reason word why its snapshots cannot be changed now, or None.

    A machine in rescue has the rescue system's disk too: a snapshot would include it and could not be deleted after
    that disk is gone.
    """
    reason = action_error(instance, "snapshot")
    if reason:
        return reason
    if session.get(Rescue, instance.id):
        return "rescue_active"
    query = select(Task.id).where(
        Task.resource_id == instance.id, Task.status.in_(OPEN_STATUSES), Task.lock == "exclusive"
    )
    return TASK_RUNNING if session.scalar(query.limit(1)) else None


def ensure_changeable(instance: Instance) -> None:
    ensure_no_error(change_error(instance))
    forges.ensure_not_active(instance)


def create(
    instance: Instance, *, snapname: str, actor: str, vmstate: bool = False, description: str = ""
) -> tuple[Snapshot, Task]:
    """Create a snapshot and its task; return both. `vmstate` includes the memory of a running guest."""
    ensure_changeable(instance)
    if instance.secure_boot_enabled:
        raise Conflict(SECURE_BOOT_MESSAGE, reason="secure_boot_enabled")
    if instance.volumes:
        raise Conflict(
            message("Volumes are attached. Detach them first: they have snapshots of their own."), reason="has_volumes"
        )
    existing = [other for other in listing(instance) if not replace_failed(other, snapname)]
    if snapname in {other.name for other in existing}:
        raise Invalid(message("This name is taken."), snapname=message("This name is taken."))
    if len(existing) >= MAX_SNAPSHOTS_PER_INSTANCE:
        sentence = message(
            "An instance has at most {maximum} snapshots. Delete one first.", maximum=MAX_SNAPSHOTS_PER_INSTANCE
        )
        raise Invalid(sentence, reason="snapshot_limit", snapname=sentence)
    usable = [other for other in existing if other.status == "available"]
    latest = max(usable, key=lambda other: other.used_at, default=None)
    snapshot = Snapshot(
        instance=instance,
        name=snapname,
        description=description or "",
        vmstate=vmstate and instance.power == "on",
        parent=latest and latest.name,
        cpu_cores=instance.cpu_cores,
        ram=instance.ram,
        disk_ids=[disk.id for disk in instance.disks if disk.attached],
    )
    session.add(snapshot)
    session.flush()
    return snapshot, enqueue(snapshot, "create", "storage", actor)


def replace_failed(snapshot: Snapshot, name: str) -> bool:
    """Delete a failed snapshot of this name, so that the new one can have it. Return whether it was deleted."""
    if (snapshot.name, snapshot.status) != (name, "failed"):
        return False
    session.delete(snapshot)
    session.flush()
    return True


def rollback(snapshot: Snapshot, *, actor: str, start: bool | None = None) -> Task:
    """Roll the machine back to the snapshot; later changes are lost.

    It runs afterwards if it did before, or by `start`.
    """
    instance = snapshot.instance
    ensure_changeable(instance)
    ensure_usable(snapshot)
    if snapshot.disk_ids != [disk.id for disk in instance.disks if disk.attached]:
        raise Conflict(DISKS_CHANGED_MESSAGE, reason="disks_changed")
    same_size = (snapshot.cpu_cores, snapshot.ram) == (instance.cpu_cores, instance.ram)
    arguments = {"start": instance.power == "on" if start is None else start, "memory": snapshot.vmstate and same_size}
    snapshot.status = "restoring"
    return enqueue(snapshot, "rollback", "exclusive", actor, **arguments)


def ensure_usable(snapshot: Snapshot) -> None:
    if snapshot.status != "available":
        raise Conflict(
            message("The snapshot cannot be used: it is {status}.", status=snapshot.status),
            reason="snapshot_not_available",
        )


def delete(snapshot: Snapshot, *, actor: str) -> Task:
    ensure_changeable(snapshot.instance)
    if snapshot.status in ("restoring", "creating", "deleting"):
        raise make_problem(TASK_RUNNING)
    snapshot.status = "deleting"
    return enqueue(snapshot, "delete", "storage", actor)


def enqueue(snapshot: Snapshot, action: str, lock: str, actor: str, **arguments: Any) -> Task:
    instance = snapshot.instance
    return jobs.enqueue(
        f"snapshot_{action}",
        "instance",
        instance,
        lock=lock,
        actor=actor,
        hypervisor_id=instance.hypervisor_id,
        arguments={"snapshot_id": snapshot.id, **arguments},
    )


def record_outcome(snapshot: Snapshot, status: str, error: str | None = None) -> None:
    """Set the status that a worker reports."""
    snapshot.status, snapshot.error = status, error


def on_rolled_back(snapshot: Snapshot) -> None:
    snapshot.used_at = clock.now()
    record_outcome(snapshot, "available")


def on_deleted(snapshot: Snapshot) -> None:
    """Delete the row. Snapshots based on it get its parent."""
    for child in listing(snapshot.instance):
        if child.parent == snapshot.name:
            child.parent = snapshot.parent
    session.delete(snapshot)
