"""Reconcile an operation on a backup: a worker asks the destination while the request waits."""

from panel.core import jobs
from panel.core.db import session
from panel.services import backup_operations
from panel.workflows import waiting

RECONCILIATION_TIMEOUT_SECONDS = 10


def reconcile(task):
    """Revoke the operation if it has not begun; else find out what became of it. Return its state: `revoked`, `done`,
    `not_done`, or `unknown` when the destination does not tell."""
    if backup_operations.revoke(task):
        session.commit()
        return "revoked"
    backup = backup_operations.find_unconfirmed(task)
    session.commit()
    if backup is not None:
        jobs.enqueue_call("worker.tasks.instance_backups.reconcile_deletion", backup.id)
        waiting.wait_until(lambda: backup_operations.find_unconfirmed(task) is None, RECONCILIATION_TIMEOUT_SECONDS)
    return backup_operations.describe_state(task)
