"""Restoring backups of an instance in place, in both dialects."""

from api import kit
from api.instances import admin, user
from api.instances.actions import TASK_ID
from api.instances.backups import BACKUP_PATH, READ_PERMISSION, WRITE_PERMISSION, get_backup, get_own_backup
from api.instances.customer import get_own_instance
from panel.schemas.instance_backups import BackupRestoreFormOut, BackupRestoreIn, RestoredToNew, RestoreToNewIn
from panel.services import backup_restores, instances
from panel.web.audit_view import audit_label
from panel.workflows import backup_restore, restore_to_new


@user.post(
    f"{BACKUP_PATH}/restore",
    op="restore_backup",
    can="instances.restore",
    body=BackupRestoreIn,
    out=kit.build_result_schema(task_id=TASK_ID),
    aliases=(f"{BACKUP_PATH}/restore",),
)
@audit_label("Restore backup")
def restore_in_place(body, instance_id, backup_id):
    """Restore a backup to its instance.

    The disks are written beside the present ones first, while the guest continues; then it is powered off, starts with
    the restored disks if it was running, and the earlier disks are deleted. Everything written since the backup is
    lost. After a failure the instance has its earlier disks. Returns 422 `backup_not_complete`,
    `target_disk_not_found`, `target_disk_no_backend`, `target_disk_incompatible`, `target_disk_too_small`,
    `source_archive_not_found` or `source_archive_ambiguous`; 409 `backup_being_deleted`, `suspended`, `task_running`,
    `already_active` (a live-snapshot session), `has_snapshots`, `rescue_active` or `hypervisor_backup_busy`; and 503
    `hypervisor_unreachable`.
    """
    instance = get_own_instance(instance_id)
    task = backup_restore.run(instance, get_own_backup(instance_id, backup_id), actor=kit.get_current_actor(), **body)
    return {"message": "Restore requested.", "task_id": task.id}


@admin.post(
    f"{BACKUP_PATH}/restore",
    op="restore_backup",
    can=WRITE_PERMISSION,
    body=BackupRestoreIn,
    out=kit.Schema.from_dict({"task_id": TASK_ID}, name="RestoringBackup"),
)
@audit_label("Restore backup")
def admin_restore_in_place(body, instance_id, backup_id):
    """Restore a backup to its instance.

    The disks are written beside the present ones first, while the guest continues; then it is powered off, starts with
    the restored disks if it was running, and the earlier disks are deleted. After a failure the instance has its
    earlier disks. Can also restore a backup that an earlier owner of the instance made. Returns the same errors as for
    customers.
    """
    backup = get_backup(instance_id, backup_id)
    task = backup_restore.run(instances.get(instance_id), backup, actor=kit.get_current_actor(), **body)
    kit.set_message("Restore requested.")
    return {"task_id": task.id}


@admin.post(
    f"{BACKUP_PATH}/restore-to-new",
    op="restore_backup_to_new",
    can=WRITE_PERMISSION,
    body=RestoreToNewIn,
    out=RestoredToNew,
)
@audit_label("Restore backup to new instance")
def admin_restore_to_new(body, instance_id, backup_id):
    """Restore a backup on a backup server to a new instance.

    The new instance belongs to the owner of the backup and has new addresses; users and passwords in the guest are
    those of the backup. Also for a destroyed instance, with `hypervisor_id` and `plan_id`. Returns 422
    `not_rbs_backup`, `backup_not_complete`, `backup_not_addressable`, `backup_missing`, `target_disk_too_small` or the
    reason why the capacity does not suffice; 409 `backup_being_deleted`, `destination_mismatch` (the hypervisor uses
    another destination) or `hypervisor_backup_busy`; and 503 `hypervisor_unreachable`. Nothing is created then.
    """
    instance, task = restore_to_new.run(instance_id, backup_id, actor=kit.get_current_actor(), **body)
    kit.set_message("Restore to a new instance requested.")
    return {"task_id": task.id, "instance_id": instance.id, "billing_mode": instance.billing_mode}


@admin.get(
    "/instance/<instance_id>/backups/<backup_id>/restore",
    op="restore_backup_form",
    can=READ_PERMISSION,
    out=BackupRestoreFormOut,
)
def admin_show_restore_form(instance_id, backup_id):
    """Get what a form for restoring a backup needs.

    For each attached disk of the instance: whether the backup has a disk that can replace it, or why not. The
    hypervisor is not asked, so that a restore can still be refused.
    """
    instance, backup = instances.get(instance_id), get_backup(instance_id, backup_id)
    targets = backup_restores.list_possible_targets(instance, backup)
    return {
        "backup": backup,
        **describe_problem(backup_restores.find_problem(instance, backup)),
        "disks": [
            {
                "id": target.disk.id,
                "name": target.disk.name,
                "position": target.disk.position,
                "size": target.disk.size * backup_restores.BYTES_PER_GIB,
                "stored_size": target.archive["size"] if target.archive else None,
                **describe_problem(target.problem),
            }
            for target in targets
        ],
    }


def describe_problem(problem):
    """Return whether restoring is possible: it is without a problem."""
    return {
        "restorable": problem is None,
        "reason": problem and problem.reason,
        "message": problem and problem.message,
    }
