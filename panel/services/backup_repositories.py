"""The accounts' repositories: their garbage collection, which frees the space of deleted backups once a day, and their
keys."""

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

from sqlalchemy import Select, or_, select
from sqlalchemy.orm import contains_eager

from panel.core import clock, jobs
from panel.core.db import session
from panel.core.errors import Conflict, NotFound
from panel.core.messages import message
from panel.core.task_kinds import task_kind
from panel.models import Account, BackupDestination, BackupRepository, Task
from panel.services import audit

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


def select_all() -> Select[BackupRepository]:
    """Select the repositories that exist in their destinations, with account and destination, by account."""
    query = select(BackupRepository).join(BackupRepository.account).join(BackupRepository.destination)
    query = query.options(contains_eager(BackupRepository.account), contains_eager(BackupRepository.destination))
    return query.where(BackupRepository.initialized_at.is_not(None)).order_by(Account.email, BackupDestination.name)


def get(repository_id: str) -> BackupRepository:
    row = session.get(BackupRepository, repository_id)
    if row is None:
        raise NotFound(message("No such repository."))
    return row


def record_key_export(row: BackupRepository, **person: Any) -> None:
    """Write to the audit log that somebody gets the key."""
    audit.add(
        action="panel.backup_key.export",
        account_id=row.account_id,
        object_type="backup_repository",
        object_id=row.id,
        object_name=row.name,
        changes={"did": "asked"},
        **person,
    )
