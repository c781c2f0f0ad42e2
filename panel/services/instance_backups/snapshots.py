"""Which snapshot of a remote backup server a backup is."""

from typing import NamedTuple

from sqlalchemy import select

from panel.core.db import session
from panel.models import InstanceBackup


class SnapshotIdentity(NamedTuple):
    namespace: str
    """Empty for the root."""
    group: str
    time: int


def get_identity(backup: InstanceBackup) -> SnapshotIdentity | None:
    """Return the snapshot of the backup, or None when none was begun."""
    if backup.rbs_backup_time is None or backup.rbs_backup_id is None:
        return None
    return SnapshotIdentity(backup.rbs_namespace or "", backup.rbs_backup_id, backup.rbs_backup_time)


def find_snapshot(backup_id: str) -> SnapshotIdentity | None:
    backup = session.get(InstanceBackup, backup_id, populate_existing=True)
    return get_identity(backup) if backup else None


def map_snapshots(repository_id: str) -> dict[str, SnapshotIdentity]:
    """Return the snapshots of all backups of a repository, by the backups' ids."""
    conditions = InstanceBackup.repository_id == repository_id, InstanceBackup.rbs_backup_time.is_not(None)
    backups = session.scalars(select(InstanceBackup).where(*conditions))
    return {backup.id: identity for backup in backups if (identity := get_identity(backup))}


def record_snapshot(backup: InstanceBackup, namespace: str, group: str, time: int) -> None:
    """Record the snapshot that is going to be made for a backup."""
    backup.rbs_namespace, backup.rbs_backup_id, backup.rbs_backup_time = namespace, group, time
