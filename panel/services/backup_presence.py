"""Comparison of the backups with what their destination has."""

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Any

import structlog
from sqlalchemy import ColumnElement, Select, exists, func, select

from panel.core import clock
from panel.core.db import session
from panel.models import BackupDestination, BackupRepository, InstanceBackup

log = structlog.get_logger()

CONFIRMATION_INTERVAL = timedelta(hours=1)
"""Between the comparisons that do not find a backup until it counts as missing: storage may be absent for a while."""

VERIFICATION_WAIT = timedelta(days=1)
"""How long workers ask a backup server often for the result of a verification; later only with the comparison."""


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


def record_server_states(repository: BackupRepository, states: Mapping[str, Any], *, started_at: datetime) -> list[str]:
    """Record what a backup server reports of its snapshots: which it lacks, and the results of its verifications.
    Returns the backups that are protected here and not there."""
    record_comparison(repository, states, started_at=started_at)
    query = select(InstanceBackup).where(
        InstanceBackup.repository_id == repository.id, InstanceBackup.status == "complete"
    )
    for backup in session.scalars(query):
        if state := states.get(backup.id):
            record_verification(backup, state.verification, started_at)
    return [
        backup.id
        for backup in session.scalars(query.where(InstanceBackup.protected, InstanceBackup.delete_claimed_at.is_(None)))
        if backup.id in states and not states[backup.id].is_protected
    ]


def has_candidates(repository: BackupRepository) -> bool:
    """Return whether a backup of the repository is missing without confirmation."""
    query = select(InstanceBackup.id).where(
        InstanceBackup.repository_id == repository.id,
        InstanceBackup.missing_candidate_at.is_not(None),
        InstanceBackup.missing_confirmed_at.is_(None),
    )
    return session.scalar(query.limit(1)) is not None


def record_verification(backup: InstanceBackup, result: str | None, at: datetime) -> None:
    """Record the result of a backup server's verification. The time is that at which it was first seen."""
    backup.damaged = result == "failed"
    if result == "ok" and backup.verification_status != "ok":
        backup.verified_at = at
    backup.verification_status = result


def delete_pruned(repository: BackupRepository, states: Collection[str]) -> None:
    """Delete the rows of snapshots that prune jobs of the server have deleted. They leave later ones of the group, so
    without any the rows stay."""
    query = select(InstanceBackup).where(InstanceBackup.repository_id == repository.id)
    backups = session.scalars(query).all()
    stored_groups = {backup.rbs_backup_id for backup in backups if backup.id in states}
    for backup in backups:
        is_missing = backup.missing_confirmed_at is not None and backup.delete_claimed_at is None
        if is_missing and backup.rbs_backup_id in stored_groups:
            session.delete(backup)


def select_unverified() -> Select[BackupRepository]:
    """Select the repositories on backup servers with new backups that are not verified yet."""
    is_new = exists().where(
        InstanceBackup.repository_id == BackupRepository.id,
        InstanceBackup.status == "complete",
        InstanceBackup.rbs_backup_time.is_not(None),
        InstanceBackup.verification_status.is_(None),
        InstanceBackup.missing_confirmed_at.is_(None),
        InstanceBackup.completed_at > clock.now() - VERIFICATION_WAIT,
    )
    query = select(BackupRepository).join(BackupDestination, BackupDestination.id == BackupRepository.destination_id)
    return query.where(BackupDestination.storage_type == "rbs", BackupDestination.status != "unavailable", is_new)


def list_unverified(repository: BackupRepository) -> list[str]:
    """Return the repository's new backups that are not verified yet."""
    conditions = (
        InstanceBackup.repository_id == repository.id,
        InstanceBackup.status == "complete",
        InstanceBackup.verification_status.is_(None),
        InstanceBackup.completed_at > clock.now() - VERIFICATION_WAIT,
    )
    return list(session.scalars(select(InstanceBackup.id).where(*conditions)))


def is_unusable() -> ColumnElement[bool]:
    """Match backups that are damaged or missing."""
    return InstanceBackup.damaged | InstanceBackup.missing_confirmed_at.is_not(None)


def filter_unusable(query: Select[InstanceBackup], *, unusable: bool) -> Select[InstanceBackup]:
    return query.where(is_unusable() if unusable else ~is_unusable())


def count_unusable() -> int:
    """Return how many backups of all accounts are damaged or missing."""
    return session.scalars(select(func.count()).select_from(InstanceBackup).where(is_unusable())).one()
