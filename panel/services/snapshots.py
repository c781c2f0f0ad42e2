"""Snapshots of whole instances: take one, return to it, delete it."""

from sqlalchemy import func, select

from panel.core import clock, jobs
from panel.core.db import session
from panel.core.errors import Conflict, Invalid, NotFound
from panel.models import Rescue, Snapshot, Task
from panel.models.tasks import OPEN_STATUSES
from panel.services import forges
from panel.services.state_machine import REASONS, TASK_RUNNING, action_error

MAX_SNAPSHOTS_PER_INSTANCE = 10
"""Snapshots that an instance may have: each makes its disks slower and larger."""

SECURE_BOOT_MESSAGE = "A machine with secure boot cannot have snapshots. Stop it and switch secure boot off first."
HAS_SNAPSHOTS_MESSAGE = "The instance has snapshots. Delete them first: they hold its disks as they are."
DISKS_CHANGED_MESSAGE = "The instance has other disks by now than when the snapshot was taken."


def listing(instance):
    """Oldest first."""
    return session.scalars(select(Snapshot).where(Snapshot.instance_id == instance.id).order_by(Snapshot.id)).all()


def get(instance, name):
    wanted = Snapshot.instance_id == instance.id, Snapshot.name == name
    found = session.scalar(select(Snapshot).where(*wanted))
    if found is None:
        raise NotFound("The instance has no such snapshot.")
    return found


def count_tasks_since(snapshot):
    """How many tasks have changed the instance since the snapshot was taken."""
    query = select(func.count()).where(
        Task.resource_id == snapshot.instance_id, Task.status == "completed", Task.created_at > snapshot.created_at
    )
    return session.scalar(query)


def ensure_no_snapshots(instance):
    """For what changes the disks that snapshots are kept in."""
    if session.scalar(select(Snapshot.id).where(Snapshot.instance_id == instance.id).limit(1)):
        raise Conflict(HAS_SNAPSHOTS_MESSAGE, reason="has_snapshots")


def change_error(instance):
    """The reason word why nothing can be done with its snapshots now, or None. A machine in rescue has the rescue
    system's disk among its own: a snapshot would hold it, and could never be deleted once that disk is gone."""
    reason = action_error(instance, "snapshot")
    if reason:
        return reason
    if session.get(Rescue, instance.id):
        return "rescue_active"
    alone = select(Task.id).where(
        Task.resource_id == instance.id, Task.status.in_(OPEN_STATUSES), Task.lock == "exclusive"
    )
    return TASK_RUNNING if session.scalar(alone.limit(1)) else None


def ensure_changeable(instance):
    reason = change_error(instance)
    if reason:
        raise Conflict(REASONS[reason], reason=reason)
    forges.ensure_not_active(instance)


def create(instance, *, snapname, actor, vmstate=False, description=""):
    """Returns the snapshot and its task. With `vmstate` the memory of a running guest is kept too."""
    ensure_changeable(instance)
    if instance.secure_boot_enabled:
        raise Conflict(SECURE_BOOT_MESSAGE, reason="secure_boot_enabled")
    if instance.volumes:
        raise Conflict(
            "Volumes are attached. Detach them first: they have snapshots of their own.", reason="has_volumes"
        )
    kept = [each for each in listing(instance) if not replace_failed(each, snapname)]
    if snapname in {each.name for each in kept}:
        raise Invalid("This name is taken.", snapname="This name is taken.")
    if len(kept) >= MAX_SNAPSHOTS_PER_INSTANCE:
        sentence = f"An instance has at most {MAX_SNAPSHOTS_PER_INSTANCE} snapshots. Delete one first."
        raise Invalid(sentence, reason="snapshot_limit", snapname=sentence)
    usable = [each for each in kept if each.status == "available"]
    latest = max(usable, key=lambda each: each.used_at, default=None)
    made = Snapshot(
        instance=instance,
        name=snapname,
        description=description or "",
        vmstate=vmstate and instance.power == "on",
        parent=latest and latest.name,
        cpu_cores=instance.cpu_cores,
        ram=instance.ram,
        disk_ids=[disk.id for disk in instance.disks if disk.attached],
    )
    session.add(made)
    session.flush()
    return made, enqueue(made, "create", "storage", actor)


def replace_failed(snapshot, name):
    """Whether the new one of that name takes its place: there is nothing of one that failed."""
    if (snapshot.name, snapshot.status) != (name, "failed"):
        return False
    session.delete(snapshot)
    session.flush()
    return True


def rollback(snapshot, *, actor, start=None):
    """Returns the machine to the snapshot: what came after is lost. It runs afterwards if it did, or with `start`."""
    instance = snapshot.instance
    ensure_changeable(instance)
    ensure_usable(snapshot)
    if snapshot.disk_ids != [disk.id for disk in instance.disks if disk.attached]:
        raise Conflict(DISKS_CHANGED_MESSAGE, reason="disks_changed")
    same = (snapshot.cpu_cores, snapshot.ram) == (instance.cpu_cores, instance.ram)
    wanted = {"start": instance.power == "on" if start is None else start, "memory": snapshot.vmstate and same}
    snapshot.status = "restoring"
    return enqueue(snapshot, "rollback", "exclusive", actor, **wanted)


def ensure_usable(snapshot):
    if snapshot.status != "available":
        raise Conflict(f"The snapshot cannot be used: it is {snapshot.status}.", reason="snapshot_not_available")


def delete(snapshot, *, actor):
    ensure_changeable(snapshot.instance)
    if snapshot.status in ("restoring", "creating", "deleting"):
        raise Conflict(REASONS[TASK_RUNNING], reason=TASK_RUNNING)
    snapshot.status = "deleting"
    return enqueue(snapshot, "delete", "storage", actor)


def enqueue(snapshot, action, lock, actor, **arguments):
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


def record_outcome(snapshot, status, error=None):
    """What workers brought about."""
    snapshot.status, snapshot.error = status, error


def on_rolled_back(snapshot):
    snapshot.used_at = clock.now()
    record_outcome(snapshot, "available")


def on_deleted(snapshot):
    """Those that came from it come from what it came from."""
    for each in listing(snapshot.instance):
        if each.parent == snapshot.name:
            each.parent = snapshot.parent
    session.delete(snapshot)
