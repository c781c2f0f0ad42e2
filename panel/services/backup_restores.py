"""Restore backups: in place, or as an image."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import func, select

from panel.core import jobs
from panel.core.db import session
from panel.core.errors import Conflict, Invalid, Problem
from panel.core.messages import message
from panel.core.task_kinds import task_kind
from panel.models import Disk, Hypervisor, Image, Instance, InstanceBackup, Task
from panel.models.tasks import BACKUP_TRANSFER_TASK_KINDS
from panel.services import image_captures, settings
from panel.services.instance_backups.read import BEING_DELETED_MESSAGE
from panel.services.instances import blockers
from panel.services.state_machine import ensure_allowed, make_problem

task_kind("backup_restore", "Restore of a backup")
task_kind("backup_restore_revert", "Return to the disks before the restore")
task_kind("backup_image", "Image from a backup")

BYTES_PER_GIB = 1024**3


@dataclass(frozen=True)
class RestoreTarget:
    """An attached disk, and the stored disk that can replace it, or why there is none."""

    disk: Disk
    archive: dict[str, Any] | None
    problem: Problem | None


def list_possible_targets(instance: Instance, backup: InstanceBackup) -> list[RestoreTarget]:
    """Return a target for each attached disk."""
    targets = []
    for disk in instance.disks:
        if disk.attached:
            archive = problem = None
            try:
                archive = find_archive(instance, backup, disk)
            except Invalid as error:
                problem = error
            targets.append(RestoreTarget(disk, archive, problem))
    return targets


def find_problem(instance: Instance, backup: InstanceBackup) -> Problem | None:
    """Return why no disk of the instance can be restored at present, as far as the panel knows, or None."""
    try:
        ensure_restorable(backup)
        ensure_allowed(instance, "restore")
        blockers.ensure_disks_free(instance)
        ensure_node_available(instance.hypervisor)
    except Problem as problem:
        return problem
    return None


def restore(instance: Instance, backup: InstanceBackup, *, actor: str, target_disk_id: str | None = None) -> Task:
    """Replace disks of the instance by those of the backup. Only the disk with `target_disk_id` if it is given."""
    targets = get_restore_targets(instance, backup, target_disk_id)
    task = jobs.enqueue(
        "backup_restore",
        "instance",
        instance,
        lock="exclusive",
        actor=actor,
        hypervisor_id=instance.hypervisor_id,
        arguments={
            "backup_id": backup.id,
            "disks": targets,
            "is_foreign_backup": backup.account_id != instance.account_id,
        },
    )
    task.source_backup_id, task.source_backup_at = backup.id, backup.created_at
    session.flush()
    return task


def get_restore_targets(
    instance: Instance, backup: InstanceBackup, target_disk_id: str | None = None
) -> dict[str, str]:
    """Return which disk of the point goes to which disk of the instance: {disk id: name in the point}. Raise for every
    reason that is known before the node is called."""
    ensure_restorable(backup)
    ensure_allowed(instance, "restore")
    blockers.ensure_disks_free(instance)
    targets = {
        disk.id: find_archive(instance, backup, disk)["name"]
        for disk in list_target_disks(instance, backup, target_disk_id)
    }
    ensure_node_available(instance.hypervisor)
    return targets


def ensure_restorable(backup: InstanceBackup) -> None:
    if not backup.created:
        raise Invalid(message("The backup is not complete."), reason="backup_not_complete")
    if backup.is_claimed:
        raise Conflict(BEING_DELETED_MESSAGE, reason="backup_being_deleted")
    if backup.missing_confirmed_at and not backup.has_complete_copy:
        raise Invalid(message("The backup is no longer in the storage."), reason="backup_missing")
    if backup.is_on_rbs and backup.rbs_backup_time is None:
        sentence = message("It is not known which snapshot of the backup server this backup is.")
        raise Invalid(sentence, reason="backup_not_addressable")


def list_target_disks(instance: Instance, backup: InstanceBackup, target_disk_id: str | None) -> list[Disk]:
    attached = [disk for disk in instance.disks if disk.attached]
    stored_ids = {archive["id"] for archive in backup.disks}
    disks = [disk for disk in attached if (disk.id == target_disk_id if target_disk_id else disk.id in stored_ids)]
    if not disks:
        sentence = message("The instance does not have this disk, or it is not attached.")
        raise Invalid(sentence, reason="target_disk_not_found", target_disk_id=sentence)
    return disks


def find_archive(instance: Instance, backup: InstanceBackup, disk: Disk) -> dict[str, Any]:
    """Return the stored disk that belongs to this one: the same, else the one with its position."""
    archives = [archive for archive in backup.disks if archive["id"] == disk.id]
    archives = archives or [archive for archive in backup.disks if archive["position"] == disk.position]
    if not archives:
        raise refuse_disk(message("The backup does not have this disk."), "source_archive_not_found")
    if len(archives) > 1:
        raise refuse_disk(message("The backup has several disks that fit this one."), "source_archive_ambiguous")
    if disk.storage.capacity == 0:
        raise refuse_disk(message("The storage of the disk cannot be used."), "target_disk_no_backend")
    if disk.is_primary and backup.secure_boot_enabled != instance.secure_boot_enabled:
        sentence = message("The backup was made with another setting of secure boot. Change the setting first.")
        raise refuse_disk(sentence, "target_disk_incompatible")
    if disk.size * BYTES_PER_GIB < archives[0]["size"]:
        raise refuse_disk(message("The disk is smaller than the stored one."), "target_disk_too_small")
    return archives[0]


def refuse_disk(sentence: str, reason: str) -> Invalid:
    return Invalid(sentence, reason=reason, target_disk_id=sentence)


def ensure_node_available(hypervisor: Hypervisor) -> None:
    """Raise when the node is not up, or copies as many disks as it may at the same time."""
    ensure_node_up(hypervisor)
    running = select(func.count()).where(
        Task.hypervisor_id == hypervisor.id, Task.status == "running", Task.kind.in_(BACKUP_TRANSFER_TASK_KINDS)
    )
    if session.scalars(running).one() >= min(hypervisor.max_tasks, settings.get().backup_tasks_per_hypervisor):
        raise Conflict(
            message("The hypervisor is busy with other backups. Try again later."), reason="hypervisor_backup_busy"
        )


def ensure_node_up(hypervisor: Hypervisor) -> None:
    if hypervisor.status != "up":
        raise make_problem("hypervisor_unreachable")


def create_image(backup: InstanceBackup, *, name: str, actor: str, **options: Any) -> Image:
    """Make an image of the first disk of the backup. Return its row, with the status `creating`."""
    ensure_restorable(backup)
    archive = next((archive for archive in backup.disks if archive["position"] == 0), None)
    if archive is None:
        raise Invalid(message("The backup does not have the first disk."), reason="source_archive_not_found")
    instance = backup.instance
    image = image_captures.add_image(
        backup.account_id,
        name=name,
        source=instance.image if instance else None,
        min_disk=-(-archive["size"] // BYTES_PER_GIB),
        secure_boot=backup.secure_boot_enabled,
        **options,
    )
    jobs.enqueue(
        "backup_image",
        "image",
        image,
        lock="light",
        actor=actor,
        arguments={"backup_id": backup.id, "disk": archive["name"]},
    )
    return image
