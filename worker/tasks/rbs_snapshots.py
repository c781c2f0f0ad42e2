"""Snapshots on remote backup servers: comparison, protection and verification."""

import structlog

from panel.core import clock
from panel.core.db import session
from panel.services import backup_presence, instance_backups
from worker.engine.registry import periodic
from worker.tasks.backup_repositories import StorageFailed, get_repository, open_repository

log = structlog.get_logger()


@periodic(seconds=300)
def poll_verifications():
    """Ask the servers for the results of verifications of new backups."""
    for row in session.scalars(backup_presence.select_unverified()).all():
        if row.destination.config.get("verify_after_backup"):
            poll_repository(row)


def poll_repository(row):
    started_at, row_id, points = clock.now(), row.id, backup_presence.list_unverified(row)
    try:
        with open_repository(row) as store:
            states = store.fetch_snapshot_states(points)
    except StorageFailed as error:
        log.warning("backup_verification_unknown", repository=row_id, detail=error.detail)
        return session.rollback()
    for point, state in states.items():
        backup = instance_backups.find_by_id(point, lock=True)
        if backup is not None and state.verification:
            backup_presence.record_verification(backup, state.verification, started_at)
    session.commit()


def apply_protection(backup_id):
    """Protect the snapshot as the backup is."""
    backup = instance_backups.find_by_id(backup_id)
    if backup is None:
        return session.rollback()
    protected = backup.protected
    try:
        with open_repository(get_repository(backup.repository_id)) as store:
            store.set_protected(backup_id, protected)
    except StorageFailed as error:
        log.warning("backup_protection_not_carried", backup=backup_id, detail=error.detail)
    session.rollback()
