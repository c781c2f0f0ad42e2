"""Tests whether backups can be restored."""

from api import kit
from api.instances import admin
from api.instances.backups import BACKUP_PATH, READ_PERMISSION, WRITE_PERMISSION, get_backup
from panel.core.errors import NotFound
from panel.schemas.backup_restore_tests import BackupRestoreTestOut
from panel.services import backup_restore_tests
from panel.web.audit_view import audit_label


@admin.post(f"{BACKUP_PATH}/restore-test", op="test_backup_restore", can=WRITE_PERMISSION, out=BackupRestoreTestOut)
@audit_label("Test restore")
def start(instance_id, backup_id):
    """Test whether a backup can be restored.

    Its disks are copied to the instance's hypervisor and started as a machine without a network, which is removed
    afterwards. The test passes when the guest agent answers within 10 minutes, or, if it did not answer during the
    backup, when the screen changes within 3 minutes. Returns 409 `not_deployed`, `backup_being_deleted` or
    `hypervisor_backup_busy`, 422 `backup_not_complete`, `backup_missing` or `storage_not_sufficient`, and 503
    `hypervisor_unreachable`.
    """
    row = backup_restore_tests.start(get_backup(instance_id, backup_id), actor=kit.get_current_actor())
    kit.set_message("Restore test requested.")
    return row


@admin.get(f"{BACKUP_PATH}/restore-test", op="backup_restore_test", can=READ_PERMISSION, out=BackupRestoreTestOut)
def show(instance_id, backup_id):
    """Get the latest restore test of a backup.

    Returns 404 without one.
    """
    backup = get_backup(instance_id, backup_id)
    row = backup_restore_tests.map_latest([backup.id]).get(backup.id)
    if row is None:
        raise NotFound("The backup was not tested.")
    return row
