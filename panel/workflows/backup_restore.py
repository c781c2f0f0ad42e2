"""Restore a backup in place. The node is polled before the task is accepted."""

from panel.core.db import session
from panel.core.errors import NotFound
from panel.services import backup_restores, instance_backups, instances
from panel.services.instance_backups.read import NO_BACKUP_MESSAGE
from panel.workflows import reachability


def run(instance, backup, *, actor, target_disk_id=None):
    """Check everything, also that the node answers, and enqueue the restore. Return the task."""
    instance_id, backup_id = instance.id, backup.id
    backup_restores.get_restore_targets(instance, backup, target_disk_id)
    reachability.check_node(instance.hypervisor)
    session.expire_all()  # others may have changed or deleted the rows while the request waited
    instance, backup = instances.get(instance_id), instance_backups.find_by_id(backup_id)
    if backup is None:
        raise NotFound(NO_BACKUP_MESSAGE, reason="backup_not_found")
    return backup_restores.restore(instance, backup, actor=actor, target_disk_id=target_disk_id)
