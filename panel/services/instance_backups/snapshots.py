"""Which snapshot of a remote backup server a backup is."""

from sqlalchemy import select

from panel.core.db import session
from panel.models import InstanceBackup

SNAPSHOT_COLUMNS = (InstanceBackup.rbs_namespace, InstanceBackup.rbs_backup_id, InstanceBackup.rbs_backup_time)


def find_snapshot(backup_id: str) -> tuple[str, str, int] | None:
    """Return the namespace, group and time of the backup's snapshot, or None."""
    row = session.execute(select(*SNAPSHOT_COLUMNS).where(InstanceBackup.id == backup_id)).one_or_none()
    return tuple(row) if row and row.rbs_backup_time is not None else None


def map_snapshots(repository_id: str) -> dict[str, tuple[str, str, int]]:
    """Return the snapshots of all backups of a repository, by the backups' ids."""
    conditions = InstanceBackup.repository_id == repository_id, InstanceBackup.rbs_backup_time.is_not(None)
    rows = session.execute(select(InstanceBackup.id, *SNAPSHOT_COLUMNS).where(*conditions))
    return {row[0]: tuple(row[1:]) for row in rows}


def record_snapshot(backup: InstanceBackup, namespace: str, group: str, time: int) -> None:
    """Record the snapshot that is going to be made for a backup."""
    backup.rbs_namespace, backup.rbs_backup_id, backup.rbs_backup_time = namespace, group, time
