"""Further disks of an instance: added, grown, attached and detached while it runs, and removed for good."""

from sqlalchemy import select

from panel.core import jobs
from panel.core.db import session
from panel.core.errors import Conflict, Invalid, NotFound
from panel.models import Disk, Hypervisor, Storage, Task
from panel.models.tasks import OPEN
from panel.services import forges, resource_packs, snapshots
from panel.services.instances.create import Room
from panel.services.state_machine import BUSY, WORDS, refusal

MOST = 16
"""Disks that an instance may have."""

FIRST = "The operating system is on this disk: it stays."
SHRINK = "A disk cannot shrink: its storage may only grow."


def get(instance, disk_id):
    disk = next((each for each in instance.disks if each.id == disk_id), None)
    if disk is None:
        raise NotFound("The instance has no such disk.")
    return disk


def why_not(instance, *, by_operator=False):
    """The reason word why the disks of the instance cannot be changed now, or None."""
    reason = refusal(instance, "disk", by_operator=by_operator)
    if reason:
        return reason
    alone = select(Task.id).where(Task.resource_id == instance.id, Task.status.in_(OPEN), Task.lock == "exclusive")
    return BUSY if session.scalar(alone.limit(1)) else None


def allow(instance, *, by_operator=False):
    reason = why_not(instance, by_operator=by_operator)
    if reason:
        raise Conflict(WORDS[reason], reason=reason)
    forges.refuse_while_active(instance)
    snapshots.refuse_while_kept(instance)


def room_on(instance, size, storage=None):
    """The storage of its hypervisor where so many GiB more find room, by default the emptiest. Locked, so that two
    requests at once do not both take the last of it."""
    held = select(Hypervisor).where(Hypervisor.id == instance.hypervisor_id).with_for_update(of=Hypervisor)
    room = Room([session.scalar(held.execution_options(populate_existing=True))]).disk
    chosen = [storage] if storage else sorted((s for s in room if s.enabled), key=room.get, reverse=True)
    if not chosen or room[chosen[0]] < size:
        sentence = "Its hypervisor has not enough storage left."
        raise Invalid(sentence, reason="storage_not_sufficient", size=sentence)
    return chosen[0]


def add(instance, *, size, actor, storage_id=None, by_operator=True):
    """A further, blank disk. Returns it with the task that makes and attaches it."""
    allow(instance, by_operator=by_operator)
    if len(instance.disks) >= MOST:
        raise Invalid(f"An instance has at most {MOST} disks.")
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
    on = room_on(instance, size, on)
    resource_packs.allow_growth(instance, storage=size)
    number = 1 + max(disk.position for disk in instance.disks)
    disk = Disk(instance=instance, on=on, name=f"{instance.name}-{number}.qcow2", position=number, size=size)
    disk.attached = False
    session.add(disk)
    session.flush()
    return disk, enqueue(disk, "add", actor)


def resize(disk, *, size, actor, by_operator=True):
    """Grows the disk; a running guest sees it at once. Returns the task, or None when it has that size."""
    allow(disk.instance, by_operator=by_operator)
    if size < disk.size:
        raise Invalid(SHRINK, size=SHRINK)
    if size == disk.size:
        return None
    room_on(disk.instance, size - disk.size, disk.on)
    resource_packs.allow_growth(disk.instance, storage=size - disk.size)
    before, disk.size = disk.size, size
    if disk.is_primary:
        disk.instance.storage = size
    session.flush()
    return enqueue(disk, "resize", actor, before=before)


def attach(disk, *, actor, by_operator=False):
    """Returns the task, or None when it is attached already."""
    allow(disk.instance, by_operator=by_operator)
    return None if disk.attached else enqueue(disk, "attach", actor)


def detach(disk, *, actor, by_operator=False):
    """The disk stays, with what is on it. Returns the task, or None when it is detached already."""
    allow(disk.instance, by_operator=by_operator)
    refuse_first(disk)
    return enqueue(disk, "detach", actor) if disk.attached else None


def delete(disk, *, actor, by_operator=False):
    """The disk and everything on it is gone for good."""
    allow(disk.instance, by_operator=by_operator)
    refuse_first(disk)
    return enqueue(disk, "delete", actor)


def refuse_first(disk):
    if disk.is_primary:
        raise Conflict(FIRST, reason="primary_disk")


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
