"""Extra disks of an instance: added, resized, attached and detached while it runs, and deleted."""

from typing import Any

from sqlalchemy import select

from panel.core import jobs
from panel.core.db import session
from panel.core.errors import Conflict, Invalid, NotFound
from panel.core.messages import message
from panel.core.task_kinds import task_kind
from panel.models import Disk, Instance, Storage, Task
from panel.models.tasks import OPEN_STATUSES
from panel.services import forges, placement, resource_packs, snapshots
from panel.services.state_machine import TASK_RUNNING, action_error, ensure_no_error

task_kind("disk_add", "New disk")
task_kind("disk_attach", "Disk attach")
task_kind("disk_detach", "Disk detach")
task_kind("disk_resize", "Disk growth")
task_kind("disk_delete", "Disk delete")

MAX_DISKS_PER_INSTANCE = 16
"""Disks of one instance, the first one included."""

PRIMARY_DISK_MESSAGE = message("The operating system is on this disk, so it cannot be removed.")
SHRINK_MESSAGE = message("A disk cannot be made smaller.")

DISK_ACTION_MESSAGES = {
    "attach": (message("Attachment of the disk requested."), message("Already attached.")),
    "detach": (message("Detachment of the disk requested."), message("Already detached.")),
    "delete": (message("Deletion of the disk requested."), ""),
}
"""For each action the message after the request, and the one when nothing had to be done."""


def get_result_message(action: str, task: Task | None) -> str:
    requested, unchanged = DISK_ACTION_MESSAGES[action]
    return requested if task else unchanged


def get(instance: Instance, disk_id: str) -> Disk:
    disk = next((row for row in instance.disks if row.id == disk_id), None)
    if disk is None:
        raise NotFound(message("The instance has no such disk."))
    return disk


def change_error(instance: Instance, *, by_operator: bool = False) -> str | None:
    """Return the reason why the disks of the instance cannot be changed now, or None."""
    reason = action_error(instance, "disk", by_operator=by_operator)
    if reason:
        return reason
    query = select(Task.id).where(
        Task.resource_id == instance.id, Task.status.in_(OPEN_STATUSES), Task.lock == "exclusive"
    )
    return TASK_RUNNING if session.scalar(query.limit(1)) else None


def ensure_changeable(instance: Instance, *, by_operator: bool = False) -> None:
    ensure_no_error(change_error(instance, by_operator=by_operator))
    forges.ensure_not_active(instance)
    snapshots.ensure_no_snapshots(instance)


def choose_storage(instance: Instance, size: int, storage: Storage | None = None) -> Storage:
    """Return the storage of the instance's hypervisor with space for `size` GiB more, by default the emptiest one. The
    hypervisor is locked, so that concurrent requests cannot allocate the same space."""
    capacity = placement.lock_capacity(instance.hypervisor_id)
    if storage is None:
        return capacity.choose_storage(size, placement.HOST_STORAGE_FULL_MESSAGE, "size")
    capacity.ensure_space(storage, size, placement.HOST_STORAGE_FULL_MESSAGE, "size")
    return storage


def add(
    instance: Instance, *, size: int, actor: str, storage_id: str | None = None, by_operator: bool = True
) -> tuple[Disk, Task]:
    """Add a blank disk. Return it with the task that creates and attaches it."""
    ensure_changeable(instance, by_operator=by_operator)
    if len(instance.disks) >= MAX_DISKS_PER_INSTANCE:
        raise Invalid(message("An instance has at most {maximum} disks.", maximum=MAX_DISKS_PER_INSTANCE))
    storage = None
    if storage_id:
        storage = session.scalar(
            select(Storage).where(
                Storage.id == storage_id, Storage.hypervisor_id == instance.hypervisor_id, Storage.enabled
            )
        )
        if storage is None:
            sentence = message("Its hypervisor has no such storage.")
            raise Invalid(sentence, storage_id=sentence)
    storage = choose_storage(instance, size, storage)
    resource_packs.ensure_capacity(instance, storage=size)
    number = 1 + max(disk.position for disk in instance.disks)
    disk = Disk(instance=instance, storage=storage, name=f"{instance.name}-{number}.qcow2", position=number, size=size)
    disk.attached = False
    session.add(disk)
    session.flush()
    return disk, enqueue(disk, "add", actor)


def resize(disk: Disk, *, size: int, actor: str, by_operator: bool = True) -> Task | None:
    """Grow the disk, also while the instance runs. Return the task, or None when it has this size already."""
    ensure_changeable(disk.instance, by_operator=by_operator)
    if size < disk.size:
        raise Invalid(SHRINK_MESSAGE, size=SHRINK_MESSAGE)
    if size == disk.size:
        return None
    choose_storage(disk.instance, size - disk.size, disk.storage)
    resource_packs.ensure_capacity(disk.instance, storage=size - disk.size)
    before, disk.size = disk.size, size
    if disk.is_primary:
        disk.instance.storage = size
    session.flush()
    return enqueue(disk, "resize", actor, before=before)


def attach(disk: Disk, *, actor: str, by_operator: bool = False) -> Task | None:
    """Attach the disk. Return the task, or None when it is attached already."""
    ensure_changeable(disk.instance, by_operator=by_operator)
    return None if disk.attached else enqueue(disk, "attach", actor)


def detach(disk: Disk, *, actor: str, by_operator: bool = False) -> Task | None:
    """Detach the disk, which keeps its data. Return the task, or None when it is detached already."""
    ensure_changeable(disk.instance, by_operator=by_operator)
    ensure_not_primary(disk)
    return enqueue(disk, "detach", actor) if disk.attached else None


def delete(disk: Disk, *, actor: str, by_operator: bool = False) -> Task:
    """Delete the disk and its data. Return the task."""
    ensure_changeable(disk.instance, by_operator=by_operator)
    ensure_not_primary(disk)
    return enqueue(disk, "delete", actor)


def ensure_not_primary(disk: Disk) -> None:
    if disk.is_primary:
        raise Conflict(PRIMARY_DISK_MESSAGE, reason="primary_disk")


def enqueue(disk: Disk, action: str, actor: str, **arguments: Any) -> Task:
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
