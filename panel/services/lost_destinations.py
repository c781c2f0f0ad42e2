"""Forgetting a backup destination that is gone for good: its rows are deleted, and nothing is asked of its storage.
Backups with a complete copy elsewhere are stored in that copy from then on."""

from datetime import timedelta
from typing import Any, NamedTuple

import structlog
from sqlalchemy import ColumnElement, ScalarSelect, and_, exists, func, select, update
from sqlalchemy import delete as delete_rows
from sqlalchemy.exc import IntegrityError

from panel.core import clock
from panel.core.db import lock_row, session
from panel.core.errors import Conflict
from panel.core.messages import message
from panel.models import BackupCopy, BackupDestination, BackupPolicy, BackupRepository, InstanceBackup

log = structlog.get_logger()

MAX_CHECK_AGE = timedelta(hours=1)
"""The check that found the destination unavailable must not be older."""
UNSYNCHRONIZED = {"synchronize_session": False}
"""Rows that the session has loaded are not changed with the statement: there may be very many."""
VALUES_OF_MOVED_BACKUP: dict[str, Any] = {
    "checkpoint": None,
    "checkpoint_machine_id": None,
    "damaged": False,
    "verified_at": None,
    "missing_candidate_at": None,
    "missing_confirmed_at": None,
}
"""What was known of the point in the first destination."""


class DestinationLosses(NamedTuple):
    """What is lost with a destination: backups, those of them that are protected, their accounts, copies of backups.
    `recovered` backups have a copy elsewhere."""

    backups: int
    protected: int
    accounts: int
    copies: int
    recovered: int


def match_recoverable(destination: BackupDestination) -> ColumnElement[bool]:
    """Match the backups of the destination that have a complete copy elsewhere, and are not to be deleted."""
    return and_(
        InstanceBackup.destination_id == destination.id,
        InstanceBackup.status == "complete",
        InstanceBackup.delete_claimed_at.is_(None),
        exists().where(*match_copy(destination)),
    )


def match_copy(destination: BackupDestination) -> tuple[ColumnElement[bool], ...]:
    return (
        BackupCopy.backup_id == InstanceBackup.id,
        BackupCopy.status == "complete",
        BackupCopy.destination_id != destination.id,
    )


def count_losses(destination: BackupDestination) -> DestinationLosses:
    is_recoverable = match_recoverable(destination)
    columns = (
        func.count(),
        func.count().filter(InstanceBackup.protected),
        func.count(InstanceBackup.account_id.distinct()),
    )
    lost = select(*columns).where(InstanceBackup.destination_id == destination.id, ~is_recoverable)
    recovered = select(func.count()).select_from(InstanceBackup).where(is_recoverable)
    copies = select(func.count()).where(BackupCopy.destination_id == destination.id)
    backups, protected, accounts = session.execute(lost).one()
    return DestinationLosses(
        backups, protected, accounts, session.scalars(copies).one(), session.scalars(recovered).one()
    )


def list_forget_errors(destination: BackupDestination) -> list[str]:
    """Return every reason why the destination cannot be forgotten now."""
    errors: list[str] = []
    if destination.status == "available":
        errors.append(message("The destination is available. Delete its backups and copies instead."))
    elif destination.status != "unavailable" or is_check_old(destination):
        errors.append(message("Test the destination first. The last test must be less than an hour old."))
    if destination.enabled:
        errors.append(message("Disable the destination first, so that no new backups are stored there."))
    policies = select(BackupPolicy.name).where(BackupPolicy.destination_id == destination.id)
    if names := session.scalars(policies.order_by(BackupPolicy.name)).all():
        sentence = message("Backup plans or jobs store their backups there. Change them first: {names}.")
        errors.append(sentence.format(names=", ".join(names)))
    sources = select(BackupDestination.name).where(BackupDestination.copy_to_id == destination.id)
    if names := session.scalars(sources.order_by(BackupDestination.name)).all():
        sentence = message("Other destinations copy their backups there. Change them first: {names}.")
        errors.append(sentence.format(names=", ".join(names)))
    return errors


def is_check_old(destination: BackupDestination) -> bool:
    return destination.checked_at is None or destination.checked_at < clock.now() - MAX_CHECK_AGE


def forget(destination: BackupDestination) -> DestinationLosses:
    """Delete the destination with its backups, copies and keys. Return what was lost. No check can find it available
    in the meantime, because its row is locked."""
    lock_row(BackupDestination, destination.id)
    if errors := list_forget_errors(destination):
        raise Conflict(errors[0], reason="destination_in_use")
    losses, destination_id, name = count_losses(destination), destination.id, destination.name
    try:
        with session.begin_nested():
            move_to_copies(destination)
            delete_contents(destination_id)
            session.delete(destination)
    except IntegrityError:  # a backup was requested in the meantime
        sentence = message("The destination was used in the meantime. Try again.")
        raise Conflict(sentence, reason="destination_in_use") from None
    log.warning("backup_destination_forgotten", destination=name, **losses._asdict())
    return losses


def move_to_copies(destination: BackupDestination) -> None:
    """Let the rows of backups with a complete copy refer to that. Their next backups continue elsewhere."""

    def select_of_copy(column: Any) -> ScalarSelect[str]:
        query = select(column).where(*match_copy(destination)).order_by(BackupCopy.id).limit(1)
        return query.correlate(InstanceBackup).scalar_subquery()

    places = {name: select_of_copy(getattr(BackupCopy, name)) for name in ("repository_id", "destination_id")}
    moved = update(InstanceBackup).where(match_recoverable(destination)).values(**places, **VALUES_OF_MOVED_BACKUP)
    session.execute(moved, execution_options=UNSYNCHRONIZED)


def delete_contents(destination_id: str) -> None:
    lost = select(InstanceBackup.id).where(InstanceBackup.destination_id == destination_id)
    children = update(InstanceBackup).where(InstanceBackup.parent_backup_id.in_(lost))
    session.execute(children.values(parent_backup_id=None), execution_options=UNSYNCHRONIZED)
    for model in (InstanceBackup, BackupCopy, BackupRepository):
        rows = delete_rows(model).where(model.destination_id == destination_id)
        session.execute(rows, execution_options=UNSYNCHRONIZED)
