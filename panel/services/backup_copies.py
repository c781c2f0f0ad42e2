"""Copies of backups in a second destination, which nobody can delete before a date."""

from collections.abc import Collection
from datetime import datetime, timedelta
from types import SimpleNamespace

import structlog
from sqlalchemy import ColumnElement, Select, func, or_, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import joinedload

from panel.core import clock, jobs
from panel.core.db import lock_row, session
from panel.core.errors import Conflict, NotFound
from panel.core.messages import message
from panel.core.task_kinds import task_kind
from panel.models import BackupCopy, BackupDestination, BackupRepository, Instance, InstanceBackup, Task, Volume

log = structlog.get_logger()

task_kind("backup_copy", "Copy of a backup")
task_kind("backup_copy_delete", "Removal of a copy of a backup")

RETRY_INTERVAL = timedelta(hours=1)
MAX_TASKS_PER_RUN = 100
CONFIRMATION_INTERVAL = timedelta(hours=1)
"""Between the comparisons that do not find a copy until it counts as missing."""

COPIED_VALUES = (
    "instance_id",
    "volume_id",
    "recorded_name",
    "recorded_hostname",
    "is_appliance",
    "secure_boot_enabled",
    "name",
    "description",
    "backup_type",
    "backup_device",
    "statistics",
    "disks",
    "consistency",
    "chain_reason",
    "size",
    "parent_backup_id",
    "policy_id",
    "managed_group_id",
)
"""Columns that a backup's row has again when it is recovered from a copy."""

MISSING_MESSAGE = message("The destination does not have the copy any more.")
DAMAGED_MESSAGE = message("Parts of the copy cannot be read. The next attempt stores them again.")


def request(backup: InstanceBackup) -> BackupCopy | None:
    """Request the copy of a complete backup. Return None when its destination has no second one."""
    destination = backup.destination.copy_to
    if destination is None or destination.storage_type == "rbs" or backup.is_on_rbs:
        return None
    copy = session.scalar(select(BackupCopy).filter_by(backup_id=backup.id, destination_id=destination.id))
    if copy is None:
        copy = BackupCopy(
            account_id=backup.account_id,
            backup_id=backup.id,
            repository=get_or_create_repository(backup.repository, destination),
            destination=destination,
            backup_name=backup.name,
            backup_at=backup.created_at,
            backup_values={name: getattr(backup, name) for name in COPIED_VALUES},
            retention_days=backup.destination.copy_retention_days,
        )
        session.add(copy)
        session.flush()
        enqueue(copy, "backup_copy")
    return copy


def get_or_create_repository(original: BackupRepository, destination: BackupDestination) -> BackupRepository:
    """Return the copy of the repository in the destination. It has the key of the original."""
    query = select(BackupRepository).filter_by(copy_of_id=original.id, destination_id=destination.id)
    if repository := session.scalar(query):
        return repository
    repository = BackupRepository(
        destination=destination, account_id=original.account_id, key=original.key, copy_of_id=original.id
    )
    try:
        with session.begin_nested():
            session.add(repository)
    except IntegrityError:  # another task has created it
        return session.scalars(query).one()
    return repository


def enqueue(copy: BackupCopy, kind: str, actor: str = "system") -> Task | None:
    """Enqueue a task of the copy; return None when one is open. It is the platform's task, not the account's."""
    resource, arguments = SimpleNamespace(id=copy.id, name=copy.name), {"earlier_status": copy.status}
    try:
        return jobs.enqueue(kind, "backup_copy", resource, lock="exclusive", actor=actor, arguments=arguments)
    except Conflict:
        return None


def find_by_id(copy_id: str) -> BackupCopy | None:
    """Return the copy or None, read again, for workers."""
    return session.get(BackupCopy, copy_id, populate_existing=True)


def get(copy_id: str) -> BackupCopy:
    copy = session.scalar(listing().where(BackupCopy.id == copy_id))
    if copy is None:
        raise NotFound(message("No such copy."))
    return copy


def listing(
    *, status: str | None = None, backup_storage_id: str | None = None, account_id: str | None = None
) -> Select[BackupCopy]:
    """Select copies with what their rows show, newest first."""
    query = select(BackupCopy).options(
        joinedload(BackupCopy.account),
        joinedload(BackupCopy.destination),
        joinedload(BackupCopy.backup).load_only(InstanceBackup.id),
    )
    filters = {"status": status, "destination_id": backup_storage_id, "account_id": account_id}
    query = query.filter_by(**{name: value for name, value in filters.items() if value})
    return query.order_by(BackupCopy.id.desc())


def count_failed() -> int:
    return session.scalars(select(func.count()).where(BackupCopy.status == "failed")).one()


def find_readable(backup: InstanceBackup) -> BackupCopy | None:
    """Return a complete copy of the backup, from an available destination if there is one, or None."""
    copies = [copy for copy in backup.copies if copy.status == "complete"]
    copies = [copy for copy in copies if copy.repository_id != backup.repository_id]
    return min(copies, key=lambda copy: copy.destination.status == "unavailable", default=None)


# --- what operators request


def retry(copy: BackupCopy, *, actor: str) -> Task:
    """Copy a backup again whose copy failed."""
    copy = lock_copy(copy)
    if copy.status != "failed":
        raise Conflict(message("The copy has not failed."), reason="copy_not_failed")
    if copy.backup is None or copy.backup.repository_id == copy.repository_id:
        raise Conflict(message("The backup was deleted, so it cannot be copied again."), reason="backup_deleted")
    return request_task(copy, "backup_copy", "requested", actor)


def delete(copy: BackupCopy, *, actor: str) -> Task:
    """Request the removal of a copy. Raise `copy_retained` before its date."""
    copy = lock_copy(copy)
    ensure_deletable(copy)
    if copy.is_changing:
        raise Conflict(message("The copy is being changed. Try again later."), reason="task_running")
    return request_task(copy, "backup_copy_delete", "deleting", actor)


def ensure_deletable(copy: BackupCopy) -> None:
    """Raise when the copy is retained, or all that is left of a recovered backup."""
    if copy.is_retained and copy.retained_until:
        sentence = message(
            "The copy cannot be deleted before {date}.", date=f"{copy.retained_until:%Y-%m-%d %H:%M} UTC"
        )
        raise Conflict(sentence, reason="copy_retained")
    if copy.backup is not None and copy.backup.repository_id == copy.repository_id:
        raise Conflict(message("The backup was recovered from this copy. Delete it first."), reason="backup_recovered")


def request_task(copy: BackupCopy, kind: str, status: str, actor: str) -> Task:
    task = enqueue(copy, kind, actor)
    if task is None:
        raise Conflict(message("The copy is being changed. Try again later."), reason="task_running")
    copy.status, copy.error = status, None
    session.flush()
    return task


def recover(copy: BackupCopy) -> InstanceBackup:
    """Make the row of a deleted backup again. It is stored in the copy, and is restored as any other."""
    copy = lock_copy(copy)
    if copy.backup is not None:
        raise Conflict(message("The backup still exists. Restore it instead."), reason="backup_exists")
    if copy.status != "complete":
        raise Conflict(message("The copy is not complete."), reason="copy_not_complete")
    values = {name: value for name, value in copy.backup_values.items() if name in COPIED_VALUES}
    model, row_id = (Volume, values["volume_id"]) if values["volume_id"] else (Instance, values["instance_id"])
    is_gone = session.get(model, row_id) is None
    backup = InstanceBackup(
        id=copy.backup_id,
        account_id=copy.account_id,
        repository_id=copy.repository_id,
        destination_id=copy.destination_id,
        created_at=copy.backup_at,
        completed_at=copy.completed_at,
        status="complete",
        instance_deleted_at=clock.now() if is_gone and not values["volume_id"] else None,
        **values,
    )
    session.add(backup)
    try:
        session.flush()
    except IntegrityError:
        raise Conflict(message("The backup still exists. Restore it instead."), reason="backup_exists") from None
    return backup


def lock_copy(copy: BackupCopy) -> BackupCopy:
    locked = lock_row(BackupCopy, copy.id)
    if locked is None:
        raise NotFound(message("No such copy."))
    return locked


# --- what workers report


def record_begun(copy: BackupCopy) -> datetime:
    """Record that the copying begins. Return until when the copy will be retained; a later attempt may extend that."""
    retained_until = clock.now() + timedelta(days=copy.retention_days)
    copy.status, copy.error = "copying", None
    copy.retained_until = max(filter(None, (copy.retained_until, retained_until)))
    return copy.retained_until


def record_complete(copy: BackupCopy, *, size: int, is_locked: bool) -> None:
    copy.status, copy.error, copy.missing_at = "complete", None, None
    copy.completed_at, copy.is_locked, copy.size = copy.completed_at or clock.now(), is_locked, copy.size + size


def record_failed(copy_id: str, error: str) -> None:
    copy = find_by_id(copy_id)
    if copy is not None:
        copy.status, copy.error = "failed", error


def record_comparison(repository: BackupRepository, points: Collection[str], *, started_at: datetime) -> bool:
    """Record which complete copies the repository does not have. Return whether one is missing without confirmation."""
    is_unconfirmed = False
    conditions = BackupCopy.repository_id == repository.id, BackupCopy.status == "complete"
    for copy in session.scalars(select(BackupCopy).where(*conditions)):
        if copy.backup_id in points:
            copy.missing_at = None
        elif copy.completed_at and copy.completed_at < started_at:
            copy.missing_at = copy.missing_at or started_at
            if copy.missing_at <= started_at - CONFIRMATION_INTERVAL:
                record_failed(copy.id, MISSING_MESSAGE)
                log.error("backup_copy_missing", copy=copy.id, repository=repository.id)
            else:
                is_unconfirmed = True
    return is_unconfirmed


def record_damaged(repository: BackupRepository, backup_ids: Collection[str]) -> None:
    """Record which copies of the repository cannot be restored completely."""
    conditions = BackupCopy.repository_id == repository.id, BackupCopy.status == "complete"
    for copy in session.scalars(select(BackupCopy).where(*conditions)):
        if copy.backup_id in backup_ids:
            record_failed(copy.id, DAMAGED_MESSAGE)


# --- what is due


def start_due() -> None:
    """Enqueue failed copies again, and the removal of those whose backup is gone and whose date is over."""
    for copy in session.scalars(select_retries()).all():
        start(copy, "backup_copy", "requested")
    for copy in session.scalars(select_expired()).all():
        start(copy, "backup_copy_delete", "deleting")


def start(copy: BackupCopy, kind: str, status: str) -> None:
    if enqueue(copy, kind):
        copy.status = status


def select_with_backup() -> Select[BackupCopy]:
    query = select(BackupCopy).join(BackupDestination, BackupDestination.id == BackupCopy.destination_id)
    return query.outerjoin(InstanceBackup, InstanceBackup.id == BackupCopy.backup_id)


def select_retries() -> Select[BackupCopy]:
    """Select failed copies of backups that can be read, where the last attempt is long enough ago."""
    conditions = (
        BackupCopy.status == "failed",
        BackupCopy.updated_at < clock.now() - RETRY_INTERVAL,
        BackupDestination.status != "unavailable",
        InstanceBackup.repository_id != BackupCopy.repository_id,
        InstanceBackup.missing_confirmed_at.is_(None),
        InstanceBackup.delete_claimed_at.is_(None),
    )
    return select_with_backup().where(*conditions).order_by(BackupCopy.id).limit(MAX_TASKS_PER_RUN)


def select_expired() -> Select[BackupCopy]:
    """Select copies whose backup is gone, and that are not retained."""
    conditions = (
        InstanceBackup.id.is_(None),
        BackupCopy.status.in_(("complete", "failed")),
        BackupDestination.status != "unavailable",
        match_deletable(),
    )
    return select_with_backup().where(*conditions).order_by(BackupCopy.id).limit(MAX_TASKS_PER_RUN)


def match_deletable() -> ColumnElement[bool]:
    is_over = or_(BackupCopy.retained_until.is_(None), BackupCopy.retained_until <= clock.now())
    return or_(BackupCopy.completed_at.is_(None), is_over)
