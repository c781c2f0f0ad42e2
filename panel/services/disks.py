"""Further disks of an instance: added, grown, attached and detached while it runs, and removed for good."""

from sqlalchemy import select

from panel.core import jobs
from panel.core.db import session
from panel.core.errors import Conflict, Invalid, NotFound
from panel.models import Disk, Hypervisor, Storage, Task
from panel.models.tasks import OPEN_STATUSES
from panel.services import forges, resource_packs, snapshots
from panel.services.instances.create import Capacity
from panel.services.state_machine import REASONS, TASK_RUNNING, action_error

MAX_DISKS_PER_INSTANCE = 16
"""Disks that an instance may have."""

PRIMARY_DISK_MESSAGE = "The operating system is on this disk: it stays."
SHRINK_MESSAGE = "A disk cannot shrink: its storage may only grow."


def get(instance, disk_id):
    disk = next((each for each in instance.disks if each.id == disk_id), None)
    if disk is None:
        raise NotFound("The instance has no such disk.")
    return disk


def change_error(instance, *, by_operator=False):
    """The reason word why the disks of the instance cannot be changed now, or None."""
    reason = action_error(instance, "disk", by_operator=by_operator)
    if reason:
        return reason
    alone = select(Task.id).where(
        Task.resource_id == instance.id, Task.status.in_(OPEN_STATUSES), Task.lock == "exclusive"
    )
    return TASK_RUNNING if session.scalar(alone.limit(1)) else None


def ensure_changeable(instance, *, by_operator=False):
    reason = change_error(instance, by_operator=by_operator)
    if reason:
        raise Conflict(REASONS[reason], reason=reason)
    forges.ensure_not_active(instance)
    snapshots.ensure_no_snapshots(instance)


def choose_storage(instance, size, storage=None):
    """The storage of its hypervisor where so many GiB more find room, by default the emptiest. Locked, so that two
    requests at once do not both take the last of it."""
    held = select(Hypervisor).where(Hypervisor.id == instance.hypervisor_id).with_for_update(of=Hypervisor)
    room = Capacity([session.scalar(held.execution_options(populate_existing=True))]).disk
    chosen = [storage] if storage else sorted((s for s in room if s.enabled), key=room.get, reverse=True)
    if not chosen or room[chosen[0]] < size:
        sentence = "Its hypervisor has not enough storage left."
        raise Invalid(sentence, reason="storage_not_sufficient", size=sentence)
    return chosen[0]


def add(instance, *, size, actor, storage_id=None, by_operator=True):
    """A further, blank disk. Returns it with the task that makes and attaches it."""
    ensure_changeable(instance, by_operator=by_operator)
    if len(instance.disks) >= MAX_DISKS_PER_INSTANCE:
        raise Invalid(f"An instance has at most {MAX_DISKS_PER_INSTANCE} disks.")
    on = None
    if storage_id:
        on = session.scalar(
            select(Storage).where(
                Storage.id == storage_id, Storage.hypervisor_id == instance.hypervisor_id, Storage.enabled
            )
        )
        if on is None:
            sentence = "Its hypervisor has no such storage."
            raise Invalid(sentence, storage_id=sentence)
    on = choose_storage(instance, size, on)
    resource_packs.ensure_capacity(instance, storage=size)
    number = 1 + max(disk.position for disk in instance.disks)
    disk = Disk(instance=instance, on=on, name=f"{instance.name}-{number}.qcow2", position=number, size=size)
    disk.attached = False
    session.add(disk)
    session.flush()
    return disk, enqueue(disk, "add", actor)


def resize(disk, *, size, actor, by_operator=True):
    """Grows the disk; a running guest sees it at once. Returns the task, or None when it has that size."""
    ensure_changeable(disk.instance, by_operator=by_operator)
    if size < disk.size:
        raise Invalid(SHRINK_MESSAGE, size=SHRINK_MESSAGE)
    if size == disk.size:
        return None
    choose_storage(disk.instance, size - disk.size, disk.on)
    resource_packs.ensure_capacity(disk.instance, storage=size - disk.size)
    before, disk.size = disk.size, size
    if disk.is_primary:
        disk.instance.storage = size
    session.flush()
    return enqueue(disk, "resize", actor, before=before)


def attach(disk, *, actor, by_operator=False):
    """Returns the task, or None when it is attached already."""
    ensure_changeable(disk.instance, by_operator=by_operator)
    return None if disk.attached else enqueue(disk, "attach", actor)


def detach(disk, *, actor, by_operator=False):
    """The disk stays, with what is on it. Returns the task, or None when it is detached already."""
    ensure_changeable(disk.instance, by_operator=by_operator)
    ensure_not_primary(disk)
    return enqueue(disk, "detach", actor) if disk.attached else None


def delete(disk, *, actor, by_operator=False):
    """The disk and everything on it is gone for good."""
    ensure_changeable(disk.instance, by_operator=by_operator)
    ensure_not_primary(disk)
    return enqueue(disk, "delete", actor)


def ensure_not_primary(disk):
    if disk.is_primary:
        raise Conflict(PRIMARY_DISK_MESSAGE, reason="primary_disk")


def enqueue(disk, action, actor, **arguments):
    instance = disk.instance
    return jobs.enqueue(
        f"disk_{action}",
        "instance",
        instance,
        lock="storage",
        actor=actor,
        hypervisor_id=instance.hypervisor_id,
        arguments={"disk_id": disk.id, **arguments},
    )
