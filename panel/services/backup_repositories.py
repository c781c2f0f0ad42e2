"""Garbage collection of the accounts' repositories: the space of deleted backups is freed once a day."""

from datetime import timedelta
from types import SimpleNamespace

from sqlalchemy import Select, or_, select

from panel.core import clock, jobs
from panel.core.errors import Conflict
from panel.core.task_kinds import task_kind
from panel.models import BackupDestination, BackupRepository, Task

task_kind("backup_collect_garbage", "Backup space collection")

COLLECTION_INTERVAL = timedelta(days=1)
MAX_COLLECTIONS_PER_RUN = 200


def select_due() -> Select[BackupRepository]:
    """Select the repositories whose last garbage collection is too long ago, the longest first."""
    limit = clock.now() - COLLECTION_INTERVAL
    is_due = or_(BackupRepository.collected_at.is_(None), BackupRepository.collected_at < limit)
    query = select(BackupRepository).join(BackupDestination, BackupDestination.id == BackupRepository.destination_id)
    query = query.where(BackupRepository.initialized_at.is_not(None), BackupDestination.status != "unavailable", is_due)
    return query.order_by(BackupRepository.collected_at.nulls_first()).limit(MAX_COLLECTIONS_PER_RUN)


def enqueue_collection(repository: BackupRepository) -> Task | None:
    """Enqueue a garbage collection; return None when one is open. It is the platform's task, not the account's."""
    resource = SimpleNamespace(id=repository.id, name=repository.name)
    try:
        return jobs.enqueue("backup_collect_garbage", "backup_repository", resource, lock="exclusive", actor="system")
    except Conflict:
        return None
