"""Backups of volumes: create, find and restore. They are rows among the backups of instances, so they are deleted,
verified and compared with their destinations in the same way."""

from sqlalchemy import Select, select

from panel.core import clock
from panel.core.db import session
from panel.core.errors import Invalid, NotFound
from panel.core.messages import message
from panel.core.task_kinds import task_kind
from panel.models import Account, InstanceBackup, Task, Volume
from panel.services import forges
from panel.services.access import Access
from panel.services.backup_restores import BYTES_PER_GIB, ensure_node_available, ensure_restorable
from panel.services.disks import SHRINK_MESSAGE
from panel.services.instance_backups.create import get_destination, get_or_create_repository
from panel.services.instance_backups.read import NO_BACKUP_MESSAGE, match_text, select_backups
from panel.services.state_machine import TASK_RUNNING, ensure_allowed, make_problem
from panel.services.volumes import actions
from panel.services.volumes.snapshots import ensure_capacity, missing_field_error

task_kind("volume_backup", "Volume backup")
task_kind("volume_backup_copy", "New volume from a backup")
task_kind("volume_backup_restore", "Restore of a volume backup")

MAX_DEFAULT_NAME_LENGTH = 200
"""Characters of the volume's name in the name of a backup that has no other."""


def create(
    volume: Volume, *, actor: str, name: str | None = None, destination_id: str | None = None
) -> tuple[InstanceBackup, Task]:
    """Create the backup's row and its task; return both. Without `destination_id` the first enabled destination of the
    node is used."""
    ensure_possible(volume)
    destination = get_destination(volume.storage.hypervisor, destination_id)
    backup = InstanceBackup(
        account_id=volume.account_id,
        repository=get_or_create_repository(destination, volume.account_id),
        destination=destination,
        instance_id="",
        volume_id=volume.id,
        recorded_name=volume.name,
        recorded_hostname="",
        name=name or f"{volume.name[:MAX_DEFAULT_NAME_LENGTH]} {clock.now():%Y-%m-%d %H:%M}",
        backup_type="incremental",
    )
    session.add(backup)
    session.flush()
    arguments = {"volume_id": volume.id, "backup_id": backup.id, "instance_id": volume.instance_id}
    return backup, actions.enqueue(volume, "backup", actor, machine=volume.instance, **arguments)


def ensure_possible(volume: Volume) -> None:
    """Raise for every reason why no backup of the volume can be requested now, besides those of the destination."""
    if volume.status not in ("available", "attached"):
        sentence = message("The volume cannot be backed up: it is {status}.", status=volume.status)
        raise Invalid(sentence, reason="volume_not_available")
    if volume.instance and volume.instance.deployed:
        ensure_allowed(volume.instance, "backup", by_operator=True)
        forges.ensure_not_active(volume.instance)
    conditions = InstanceBackup.volume_id == volume.id, InstanceBackup.status == "creating"
    if session.scalar(select(InstanceBackup.id).where(*conditions).limit(1)):
        raise make_problem(TASK_RUNNING)


def listing(access: Access | Account | None = None, *, search: str | None = None) -> Select[InstanceBackup]:
    """Select backups of volumes, also of deleted ones, newest first."""
    query = select_backups(access).where(InstanceBackup.volume_id.is_not(None)).order_by(InstanceBackup.id.desc())
    return query.where(match_text(search)) if search else query


def get(volume_id: str, backup_id: str, access: Access | Account | None = None) -> InstanceBackup:
    """Return a backup of this volume, which may be deleted."""
    conditions = InstanceBackup.id == backup_id, InstanceBackup.volume_id == volume_id
    backup = session.scalar(listing(access).where(*conditions))
    if backup is None:
        raise NotFound(NO_BACKUP_MESSAGE, reason="backup_not_found")
    return backup


def get_by_id(backup_id: str, access: Access | Account | None = None) -> InstanceBackup:
    """Return a backup of any volume."""
    backup = session.scalar(listing(access).where(InstanceBackup.id == backup_id))
    if backup is None:
        raise NotFound(NO_BACKUP_MESSAGE)
    return backup


def restore(
    backup: InstanceBackup,
    *,
    mode: str,
    account: Access | Account,
    actor: str,
    volume_plan_id: str | None = None,
    hypervisor_group_id: str | None = None,
    name: str | None = None,
    project_id: str | None = None,
) -> Task:
    """Restore the backup to its volume (`in_place`) or to a new volume of the account. Return the task."""
    ensure_restorable(backup)
    if mode == "in_place":
        task = restore_in_place(backup, actor)
    elif not volume_plan_id:
        raise missing_field_error("volume_plan_id")
    elif not hypervisor_group_id:
        raise missing_field_error("hypervisor_group_id")
    else:
        volume = actions.create(
            account,
            name=name or f"{backup.volume_name[:MAX_DEFAULT_NAME_LENGTH]} {backup.created_at:%Y-%m-%d %H:%M}",
            volume_plan_id=volume_plan_id,
            hypervisor_group_id=hypervisor_group_id,
            project_id=project_id,
            actor=actor,
            backup_id=backup.id,
        )
        if volume.size * BYTES_PER_GIB < backup.disks[0]["size"]:
            raise Invalid(SHRINK_MESSAGE, volume_plan_id=message("The plan is smaller than the backup."))
        ensure_node_available(volume.storage.hypervisor)
        task = session.get_one(Task, volume.task_id)
    task.source_backup_id, task.source_backup_at = backup.id, backup.created_at
    session.flush()
    return task


def restore_in_place(backup: InstanceBackup, actor: str) -> Task:
    volume = session.get(Volume, backup.volume_id) if backup.volume else None
    if volume is None:
        sentence = message("The volume was deleted. Restore the backup to a new volume.")
        raise Invalid(sentence, reason="target_disk_not_found", mode=sentence)
    if volume.status != "available":
        raise Invalid(
            message("The volume is in use. Detach it first."), mode=message("Only a detached volume can be restored.")
        )
    if volume.reserved_size * BYTES_PER_GIB < backup.disks[0]["size"]:
        sentence = message("The volume is smaller than the backup.")
        raise Invalid(sentence, reason="target_disk_too_small", mode=sentence)
    ensure_capacity(volume.storage, volume.reserved_size)
    ensure_node_available(volume.storage.hypervisor)
    return actions.enqueue(volume, "backup_restore", actor, backup_id=backup.id)
