"""Restore a backup in place. The node is polled before the task is accepted."""

from panel.services import backup_restores
from panel.workflows import reachability


def run(instance, backup, *, actor, target_disk_id=None):
    """Check everything, also that the node answers, and enqueue the restore. Return the task."""
    backup_restores.get_restore_targets(instance, backup, target_disk_id)
    reachability.check_node(instance.hypervisor)
    return backup_restores.restore(instance, backup, actor=actor, target_disk_id=target_disk_id)
