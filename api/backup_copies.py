"""Copies of backups in a second destination, for operators."""

from api import kit
from panel.schemas.backup_copies import BackupCopyOut, BackupCopyQuery, RecoveredBackup
from panel.services import backup_copies
from panel.web.audit_view import audit_label

admin = kit.Admin("backup_copy", __name__, description="Copies of backups")

READ_PERMISSION, WRITE_PERMISSION = "admin:instances:read", "admin:instances:write"
COPY_PATH = "/backup-copy/<copy_id>"


@admin.get(
    "/backup-copies",
    op="list",
    can=READ_PERMISSION,
    query=BackupCopyQuery,
    out=kit.build_admin_page_schema(BackupCopyOut),
)
def listing(query):
    """List the copies of backups in second destinations.

    Newest first; also of backups that were deleted.
    """
    return kit.paginate(backup_copies.listing(**query))


@admin.get(COPY_PATH, op="get", can=READ_PERMISSION, out=BackupCopyOut)
def show(copy_id):
    """Get a copy of a backup.

    Returns 404 if the copy does not exist.
    """
    return backup_copies.get(copy_id)


@admin.post(f"{COPY_PATH}/retry", op="retry", can=WRITE_PERMISSION)
@audit_label("Copy backup again")
def retry(copy_id):
    """Try a failed copy again.

    What was stored already is not copied again. Workers do this every hour as well. Returns 409 `copy_not_failed`,
    `backup_deleted` or `task_running`.
    """
    backup_copies.retry(backup_copies.get(copy_id), actor=kit.get_current_actor())
    kit.set_message("Copy requested.")


@admin.post(f"{COPY_PATH}/recover", op="recover", can=WRITE_PERMISSION, out=RecoveredBackup)
@audit_label("Recover backup from copy")
def recover(copy_id):
    """Recover a deleted backup from its copy.

    The backup appears again, with its former id, and is read from the second destination. Restore it like any other.
    When it is deleted again, the copy stays. Returns 409 `backup_exists` or `copy_not_complete`.
    """
    backup = backup_copies.recover(backup_copies.get(copy_id))
    kit.set_message("Backup recovered.")
    return backup


@admin.delete(COPY_PATH, op="delete", can=WRITE_PERMISSION)
def delete(copy_id):
    """Remove a copy of a backup.

    Returns 409 `copy_retained` before the date in `retained_until`, `backup_recovered` while its backup was recovered
    from it, and `task_running`.
    """
    backup_copies.delete(backup_copies.get(copy_id), actor=kit.get_current_actor())
    kit.set_message("Removal of the copy requested.")
