"""Restore a backup to a new instance. The node is polled before the instance is created."""

from panel.core.db import session
from panel.services import restores_to_new
from panel.workflows import reachability


def run(source_instance_id, backup_id, *, actor, **options):
    """Check everything, also that the node answers; create the instance and enqueue the restore. Return both."""
    backup = restores_to_new.get_backup(source_instance_id, backup_id)
    reachability.check_node(restores_to_new.prepare(backup, **options).hypervisor)
    session.expire_all()  # others may have changed or deleted the rows while the request waited
    backup = restores_to_new.get_backup(source_instance_id, backup_id)
    return restores_to_new.create(restores_to_new.prepare(backup, **options), actor=actor)
