"""Comparison of the backups with what their destination has."""

from collections.abc import Collection
from datetime import datetime, timedelta

import structlog
from sqlalchemy import ColumnElement, Select, func, select

from panel.core.db import session
from panel.models import BackupRepository, InstanceBackup

log = structlog.get_logger()

CONFIRMATION_INTERVAL = timedelta(hours=1)
"""Between the comparisons that do not find a backup until it counts as missing: storage may be absent for a while."""


def record_comparison(repository: BackupRepository, points: Collection[str], *, started_at: datetime) -> bool:
    """Record which complete backups of the repository the destination does not have. Return whether one is missing
    without confirmation."""
    conditions = (
        InstanceBackup.repository_id == repository.id,
        InstanceBackup.status == "complete",
        InstanceBackup.completed_at < started_at,
        InstanceBackup.delete_claimed_at.is_(None),
    )
    is_unconfirmed = False
    for backup in session.scalars(select(InstanceBackup).where(*conditions)):
        if backup.id in points:
            backup.missing_candidate_at = backup.missing_confirmed_at = None
        elif backup.missing_confirmed_at is None:
            candidate_at = backup.missing_candidate_at = backup.missing_candidate_at or started_at
            if candidate_at <= started_at - CONFIRMATION_INTERVAL:
                backup.missing_confirmed_at = started_at
                log.error("backup_missing", backup=backup.id, repository=repository.id)
            else:
                is_unconfirmed = True
    return is_unconfirmed


def is_unusable() -> ColumnElement[bool]:
    """Match backups that are damaged or missing."""
    return InstanceBackup.damaged | InstanceBackup.missing_confirmed_at.is_not(None)


def filter_unusable(query: Select[InstanceBackup], *, unusable: bool) -> Select[InstanceBackup]:
    return query.where(is_unusable() if unusable else ~is_unusable())


def count_unusable() -> int:
    """Return how many backups of all accounts are damaged or missing."""
    return session.scalars(select(func.count()).select_from(InstanceBackup).where(is_unusable())).one()
