"""Verification of the accounts' repositories: a sample of the chunks every week, all of them every month."""

from collections.abc import Collection
from datetime import datetime, timedelta
from types import SimpleNamespace

from sqlalchemy import ColumnElement, Select, exists, func, or_, select
from sqlalchemy.orm import InstrumentedAttribute

from panel.core import clock, jobs
from panel.core.db import session
from panel.core.errors import Conflict
from panel.core.task_kinds import task_kind
from panel.models import BackupDestination, BackupRepository, InstanceBackup, Task

task_kind("backup_verify", "Backup verification")

SAMPLE_INTERVAL = timedelta(days=7)
COMPLETE_INTERVAL = timedelta(days=30)
DAMAGED_INTERVAL = timedelta(days=1)
"""Between two complete verifications while a backup is damaged: the next backup of its machine may have repaired it."""

MAX_VERIFICATIONS_PER_RUN = 200


def is_older(column: InstrumentedAttribute[datetime | None], interval: timedelta) -> ColumnElement[bool]:
    """Match repositories without such a verification within the interval. The first one is due an interval after the
    repository was created."""
    return func.coalesce(column, BackupRepository.initialized_at) < clock.now() - interval


def has_damaged_backups() -> ColumnElement[bool]:
    return exists().where(InstanceBackup.repository_id == BackupRepository.id, InstanceBackup.damaged)


def is_complete_due() -> ColumnElement[bool]:
    verified_at = BackupRepository.verified_at
    return or_(
        is_older(verified_at, COMPLETE_INTERVAL), has_damaged_backups() & is_older(verified_at, DAMAGED_INTERVAL)
    )


def select_due() -> Select[BackupRepository, bool]:
    """Select the repositories that are due, the longest first, and whether all of their chunks are."""
    query = select(BackupRepository, is_complete_due())
    query = query.join(BackupDestination, BackupDestination.id == BackupRepository.destination_id)
    is_due = or_(is_complete_due(), is_older(BackupRepository.sampled_at, SAMPLE_INTERVAL))
    # Backup servers verify by themselves.
    query = query.where(BackupDestination.storage_type != "rbs", BackupDestination.status != "unavailable")
    query = query.where(BackupRepository.initialized_at.is_not(None), is_due)
    return query.order_by(BackupRepository.sampled_at.nulls_first()).limit(MAX_VERIFICATIONS_PER_RUN)


def enqueue(repository: BackupRepository, *, is_complete: bool, actor: str = "system") -> Task | None:
    """Enqueue a verification; return None while another task uses the repository. It is the platform's task."""
    resource = SimpleNamespace(id=repository.id, name=repository.name)
    arguments = {"is_complete": is_complete}
    try:
        return jobs.enqueue(
            "backup_verify", "backup_repository", resource, lock="exclusive", actor=actor, arguments=arguments
        )
    except Conflict:
        return None


def record(
    repository: BackupRepository, damaged_ids: Collection[str], *, is_complete: bool, started_at: datetime
) -> None:
    """Record which backups are damaged. Only a complete verification shows that the others are not."""
    repository.sampled_at = started_at
    if is_complete:
        repository.verified_at = started_at
    conditions = InstanceBackup.repository_id == repository.id, InstanceBackup.status == "complete"
    for backup in session.scalars(select(InstanceBackup).where(*conditions)):
        if backup.id in damaged_ids:
            backup.damaged = True
        elif is_complete and backup.completed_at and backup.completed_at < started_at:
            backup.damaged, backup.verified_at = False, started_at
