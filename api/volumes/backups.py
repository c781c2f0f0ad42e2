"""Backups of volumes, in both dialects."""

from api import kit
from api.volumes import admin, user
from api.volumes.customer import MANAGE_PERMISSION, VIEW_PERMISSION, VOLUME_PATH, get_own_volume
from api.volumes.snapshots import QUEUE_ANSWER, QUEUED_ANSWER, describe_work
from panel.schemas.volumes import (
    AdminVolumeBackupIn,
    AdminVolumeBackupRow,
    VolumeBackupIn,
    VolumeBackupRow,
    VolumePlanQuery,
    VolumeRestore,
)
from panel.services import volume_backups, volumes
from panel.web.audit_view import audit_label
from panel.workflows import backup_deletion

BACKUP_PATH = f"{VOLUME_PATH}/backup/<backup_id>"
ADMIN_PATH = "/volume/<volume_id>/backup"
READ_PERMISSION, WRITE_PERMISSION = "admin:volumes:read", "admin:volumes:write"


def create_backup(volume, body):
    _, task = volume_backups.create(volume, actor=kit.get_current_actor(), **body)
    return {"queue": describe_work(task, volume.id)}


def delete_backup(backup):
    backup_id = backup.id
    return {"queue": describe_work(backup_deletion.delete(backup, actor=kit.get_current_actor()), backup_id)}


def restore_backup(backup, account, body):
    task = volume_backups.restore(backup, account=account, actor=kit.get_current_actor(), **body)
    return {"queue": describe_work(task, backup.id)}


def get_own_backup(volume_id, backup_id):
    return volume_backups.get(volume_id, backup_id, kit.get_current_access())


@user.get(
    "/storage/volume-backups",
    op="backups",
    can=VIEW_PERMISSION,
    query=VolumePlanQuery,
    out=kit.build_page_schema(VolumeBackupRow),
    billed=True,
)
def listing(query):
    """List the backups of all volumes, newest first.

    Also of deleted volumes. `search` matches names of backups and volumes.
    """
    return kit.paginate(volume_backups.listing(kit.get_current_access(), **query))


@user.post(
    f"{VOLUME_PATH}/backup",
    op="backup_create",
    can=MANAGE_PERMISSION,
    body=VolumeBackupIn,
    out=QUEUED_ANSWER,
    billed=True,
)
@audit_label("Back up volume")
def create(body, volume_id):
    """Back up a volume.

    It is stored outside of the hypervisor, and listed in the volume's `backups`: poll it until its status is
    `available` or `failed`. The volume can be in use: then only what has changed since its last backup is read, if the
    hypervisor knows it. Returns 422 `volume_not_available`, 409 `task_running`, `already_active` (a live-snapshot
    session of the instance) or `no_backup_destination`, and 503 `backup_storage_unavailable`.
    """
    return {"message": "Backup requested.", **create_backup(get_own_volume(volume_id), body)}


@user.delete(BACKUP_PATH, op="backup_delete", can=MANAGE_PERMISSION, out=QUEUED_ANSWER, billed=True)
@audit_label("Delete backup of volume")
def delete(volume_id, backup_id):
    """Delete a backup of a volume, which may be deleted itself.

    It is listed until its storage has confirmed the deletion. Returns 409 `backup_being_deleted` or `task_running` (not
    complete yet), 422 `delete_not_dispatched` if nothing was deleted because the storage is not available, and 503
    `delete_dispatch_unconfirmed` if the outcome is not known.
    """
    return {"message": "Deletion of the backup requested.", **delete_backup(get_own_backup(volume_id, backup_id))}


@user.post(
    f"{BACKUP_PATH}/restore",
    op="backup_restore",
    can=MANAGE_PERMISSION,
    body=VolumeRestore,
    out=QUEUED_ANSWER,
    billed=True,
)
@audit_label("Restore backup of volume")
def restore(body, volume_id, backup_id):
    """Restore a backup to its volume or to a new volume.

    `in_place` requires a detached volume; its data is replaced once the restored disk is complete. `new_volume`
    requires `volume_plan_id`, not smaller than the backup, and `hypervisor_group_id`, any location; the volume of the
    backup may be deleted. Returns 422 `backup_not_complete`, `backup_missing`, `target_disk_not_found`,
    `target_disk_too_small` or `storage_not_sufficient`, 409 `backup_being_deleted` or `hypervisor_backup_busy`, and 503
    `hypervisor_unreachable`.
    """
    backup = get_own_backup(volume_id, backup_id)
    return {"message": "Restore requested.", **restore_backup(backup, kit.get_current_access(), body)}


@admin.get(
    "/volume-backups",
    op="backups",
    can=READ_PERMISSION,
    query=VolumePlanQuery,
    out=kit.build_admin_page_schema(AdminVolumeBackupRow),
)
def admin_listing(query):
    """List the backups of volumes of all users, newest first.

    Also of deleted volumes. `search` matches names of backups and volumes.
    """
    return kit.paginate(volume_backups.listing(**query))


@admin.post(ADMIN_PATH, op="backup_create", can=WRITE_PERMISSION, body=AdminVolumeBackupIn, out=QUEUE_ANSWER)
@audit_label("Back up volume")
def admin_create(body, volume_id):
    """Back up a volume.

    The backup is stored in the destination with `destination_id`, which must be enabled for the volume's hypervisor
    (422 otherwise), or in the first such destination. Returns 422 `volume_not_available`, 409 `task_running`,
    `already_active` (a live-snapshot session of the instance) or `no_backup_destination`, and 503
    `backup_storage_unavailable`.
    """
    kit.set_message("Backup requested.")
    return create_backup(volumes.get(volume_id), body)


@admin.delete(f"{ADMIN_PATH}/<backup_id>", op="backup_delete", can=WRITE_PERMISSION, out=QUEUE_ANSWER)
@audit_label("Delete backup of volume")
def admin_delete(volume_id, backup_id):
    """Delete a backup of a volume, which may be deleted itself.

    It is listed until its storage has confirmed the deletion. Returns 409 `backup_being_deleted` or `task_running` (not
    complete yet), 422 `delete_not_dispatched` if nothing was deleted because the storage is not available, and 503
    `delete_dispatch_unconfirmed` if the outcome is not known.
    """
    kit.set_message("Deletion of the backup requested.")
    return delete_backup(volume_backups.get(volume_id, backup_id))


@admin.post(
    f"{ADMIN_PATH}/<backup_id>/restore", op="backup_restore", can=WRITE_PERMISSION, body=VolumeRestore, out=QUEUE_ANSWER
)
@audit_label("Restore backup of volume")
def admin_restore(body, volume_id, backup_id):
    """Restore a backup to its volume or to a new volume of the same owner.

    To restore in place, the volume must be detached (422 under `mode`); everything written since the backup is lost. A
    new volume requires a plan and a location. Returns 422 `backup_not_complete`, `backup_missing`,
    `target_disk_not_found`, `target_disk_too_small` or `storage_not_sufficient`, 409 `backup_being_deleted` or
    `hypervisor_backup_busy`, and 503 `hypervisor_unreachable`.
    """
    backup = volume_backups.get(volume_id, backup_id)
    kit.set_message("Restore requested.")
    return restore_backup(backup, backup.account, body)
