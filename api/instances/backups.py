"""Backups of one instance, in both dialects."""

from api import kit
from api.instance_backups import (
    ADMIN_BACKUP_LIST,
    BACKUP_LIST,
    BACKUP_WITH_CHAIN,
    DELETION_RESPONSE,
    REFUSED_RESPONSES,
    delete_several,
)
from api.instances import admin, user
from api.instances.customer import get_own_instance
from panel.schemas.base import In, Text, describe
from panel.schemas.instance_backups import (
    EXAMPLE_ID,
    AdminInstanceBackupOut,
    AdminInstanceBackupQuery,
    BackupIdsIn,
    BackupProtectionIn,
    InstanceBackupIn,
    InstanceBackupOut,
    InstanceBackupQuery,
)
from panel.services import instance_backups, instances
from panel.web.audit_view import audit_label
from panel.workflows import backup_chain_reset, backup_deletion

BACKUP_PATH = "/instance/<instance_id>/backup/<backup_id>"
BACKUP_RESPONSE = kit.build_wrapped_schema("backup", InstanceBackupOut)
READ_PERMISSION, WRITE_PERMISSION = "admin:instances:read", "admin:instances:write"


class ChainResetIn(In):
    disk_id = Text(maximum=36, allow_none=True, **describe("A disk of the instance.", EXAMPLE_ID))


def get_own_backup(instance_id, backup_id):
    access = kit.get_current_access()
    return instance_backups.get_of_instance(instances.get(instance_id, access), backup_id, access)


def get_backup(instance_id, backup_id):
    return instance_backups.get_of_instance(instances.get(instance_id), backup_id)


@user.get(
    "/instance/<instance_id>/backups",
    op="list_backups",
    can="instances.view",
    query=InstanceBackupQuery,
    out=BACKUP_LIST,
)
def listing(query, instance_id):
    """List the backups of an instance.

    Newest first, unless sorted otherwise.
    """
    access = kit.get_current_access()
    filters = query | {"instance_id": instances.get(instance_id, access).id}
    return kit.paginate(instance_backups.listing(access, **filters))


@user.post(
    "/instance/<instance_id>/backups",
    op="create_backup",
    can="instances.backups",
    body=InstanceBackupIn,
    out=kit.build_result_schema(),
)
@audit_label("Back up")
def create(body, instance_id):
    """Back up an instance.

    A running guest keeps running. Its file systems are frozen for a moment through the guest agent; without an agent
    the backup has the state after a power failure. Changes since the last backup are read, or everything if the
    hypervisor does not know them. Every backup can be restored and deleted on its own. Returns 409 `not_deployed`,
    `task_running`, `already_active` (a live-snapshot session) or `no_backup_destination`, and 503
    `backup_storage_unavailable`.
    """
    instance = get_own_instance(instance_id, even_suspended=True)
    instance_backups.create(instance, actor=kit.get_current_actor(), **body)
    return {"message": "Backup requested."}


@user.get(BACKUP_PATH, op="get_backup", can="instances.view", out=BACKUP_WITH_CHAIN)
def show(instance_id, backup_id):
    """Get a backup of an instance.

    `chain` has the backups whose content it reused, the nearest first. It does not need them to be restored.
    """
    backup = get_own_backup(instance_id, backup_id)
    return {"message": None, "backup": backup, "chain": instance_backups.get_chain(backup)}


@user.patch(
    f"{BACKUP_PATH}/protected",
    op="protect_backup",
    can="instances.backups",
    body=BackupProtectionIn,
    out=BACKUP_RESPONSE,
)
@audit_label("Protect backup")
def protect(body, instance_id, backup_id):
    """Protect a backup from deletion, or end the protection.

    Retention does not delete protected backups either. Sending the current value changes nothing. Returns 404
    `backup_not_found` for a backup of another instance, and 409 `backup_being_deleted`.
    """
    backup = instance_backups.set_protected(get_own_backup(instance_id, backup_id), **body)
    return {"message": "Backup protected." if backup.protected else "Protection removed.", "backup": backup}


@user.delete(BACKUP_PATH, op="delete_backup", can="instances.backups", out=kit.build_result_schema())
@audit_label("Delete backup")
def delete(instance_id, backup_id):
    """Delete a backup of an instance.

    It is listed until its storage has confirmed the deletion. Returns 409 `backup_not_deletable` (protected),
    `backup_being_deleted` or `task_running` (not complete yet), 422 `delete_not_dispatched` if nothing was deleted
    because the storage is not available, and 503 `delete_dispatch_unconfirmed` if the outcome is not known; it then
    stays marked for deletion.
    """
    backup_deletion.delete(get_own_backup(instance_id, backup_id), actor=kit.get_current_actor())
    return {"message": "Deletion of the backup requested."}


@user.post(
    "/instance/<instance_id>/backups/destroy",
    op="destroy_backups",
    can="instances.backups",
    body=BackupIdsIn,
    out=DELETION_RESPONSE,
)
@user.doc(responses=REFUSED_RESPONSES)
@audit_label("Delete backups")
def destroy(body, instance_id):
    """Delete several backups of an instance.

    The response has a result for each backup. The status is 200 if none was refused, otherwise that of the first
    refusal (a later 503 takes precedence); backups that were not refused are deleted. A backup of another instance has
    a result with status 404 and reason `backup_not_found`.
    """
    access = kit.get_current_access()
    instance = instances.get(instance_id, access)
    return delete_several(body["backups"], access, is_missing_refused=True, instance_id=instance.id)


@admin.get(
    "/instance/<instance_id>/backups",
    op="backups",
    can=READ_PERMISSION,
    query=AdminInstanceBackupQuery,
    out=ADMIN_BACKUP_LIST,
)
def admin_listing(query, instance_id):
    """List the backups of an instance.

    Newest first, unless sorted otherwise. Contains backups that an earlier owner of the instance made.
    """
    return kit.paginate(instance_backups.listing(**query | {"instance_id": instances.get(instance_id).id}))


@admin.post("/instance/<instance_id>/backups", op="create_backup", can=WRITE_PERMISSION, body=InstanceBackupIn)
@audit_label("Back up")
def admin_create(body, instance_id):
    """Back up an instance of a user.

    A running guest keeps running. Its file systems are frozen for a moment through the guest agent; without an agent
    the backup has the state after a power failure. Changes since the last backup are read, or everything if the
    hypervisor does not know them. Every backup can be restored and deleted on its own. Returns 409 `not_deployed`,
    `task_running`, `already_active` (a live-snapshot session) or `no_backup_destination`, and 503
    `backup_storage_unavailable`.
    """
    instance_backups.create(instances.get(instance_id), actor=kit.get_current_actor(), **body)
    kit.set_message("Backup requested.")


@admin.get(BACKUP_PATH, op="get_backup", can=READ_PERMISSION, out=AdminInstanceBackupOut)
def admin_show(instance_id, backup_id):
    """Get a backup of an instance.

    Returns 404 `backup_not_found` for a backup of another instance.
    """
    return get_backup(instance_id, backup_id)


@admin.patch(
    f"{BACKUP_PATH}/protected",
    op="protect_backup",
    can=WRITE_PERMISSION,
    body=BackupProtectionIn,
    out=AdminInstanceBackupOut,
)
@audit_label("Protect backup")
def admin_protect(body, instance_id, backup_id):
    """Protect a backup from deletion, or end the protection.

    Retention does not delete protected backups either. Sending the current value changes nothing. Returns 404
    `backup_not_found` for a backup of another instance, and 409 `backup_being_deleted`.
    """
    backup = instance_backups.set_protected(get_backup(instance_id, backup_id), **body)
    kit.set_message("Backup protected." if backup.protected else "Protection removed.")
    return backup


@admin.delete(
    BACKUP_PATH,
    op="delete_backup",
    can=WRITE_PERMISSION,
    aliases=("/api/v1/instance/<instance_id>/backups/<backup_id>",),
)
@audit_label("Delete backup")
def admin_delete(instance_id, backup_id):
    """Delete a backup of an instance.

    It is listed until its storage has confirmed the deletion. Returns 409 `backup_not_deletable` (protected),
    `backup_being_deleted` or `task_running` (not complete yet), 422 `delete_not_dispatched` if nothing was deleted
    because the storage is not available, and 503 `delete_dispatch_unconfirmed` if the outcome is not known; it then
    stays marked for deletion.
    """
    backup_deletion.delete(get_backup(instance_id, backup_id), actor=kit.get_current_actor())
    kit.set_message("Deletion of the backup requested.")


@admin.post(
    "/instance/<instance_id>/backup/rbs-chain/reset",
    op="reset_backup_chain",
    can=WRITE_PERMISSION,
    body=ChainResetIn,
)
@audit_label("Reset backup chain")
def reset_chain(body, instance_id):
    """Make the next backup of an instance read everything.

    Use it if you do not trust the increments. With `disk_id` only that disk is read completely. Returns 422
    `unknown_disk` for a disk of another instance, 409 `hypervisor_refused`, and 503 `hypervisor_unreachable`; nothing
    was changed then.
    """
    backup_chain_reset.run(instances.get(instance_id), actor=kit.get_current_actor(), **body)
    kit.set_message(
        "The next backup reads the disk completely." if body.get("disk_id") else "The next backup reads everything."
    )
