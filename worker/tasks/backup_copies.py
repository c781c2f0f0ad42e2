"""Copying backups to a second destination, and removing the copies."""

from contextlib import contextmanager

from panel.core.db import session
from panel.core.errors import NotFound, Problem
from panel.core.messages import message
from panel.services import backup_copies
from panel.services.backup_limits import MEBIBYTE
from worker.backups.copying import VerifiedTarget, copy_point
from worker.backups.rate_limit import RateLimit
from worker.engine.registry import periodic, task_handler
from worker.tasks.backup_repositories import StorageFailed, open_repository


class CopyFailed(Problem):
    """A destination does not work as it should. Only operators see the sentence."""


@contextmanager
def explained_errors():
    """Raise CopyFailed with the reason for errors of repositories."""
    try:
        yield
    except StorageFailed as error:
        raise CopyFailed(message("The storage failed: {reason}", reason=error.detail)) from error


def get_copy(work):
    copy = backup_copies.find_by_id(work.task.resource_id)
    if copy is None:
        raise NotFound(message("The copy was deleted in the meantime."))
    return copy


def on_copy_failed(row, error):
    backup_copies.record_failed(row.resource_id, error)


@task_handler("backup_copy", on_failure=on_copy_failed)
def copy(work):
    """Copy a backup to the second destination. What an earlier attempt has stored there is not copied again."""
    row = get_copy(work)
    backup = row.backup
    if backup is None or not backup.created:
        raise NotFound(message("The backup was deleted in the meantime."))
    retained_until, backup_id = backup_copies.record_begun(row), backup.id
    limit = RateLimit(row.destination.bandwidth_limit * MEBIBYTE)
    work.step(message("Connecting to the storages"), 5)
    with (
        explained_errors(),
        open_repository(backup.repository) as source,
        open_repository(get_copy(work).repository) as target,
    ):
        target.target = VerifiedTarget(target.target)
        is_locked = target.target.has_object_lock()
        work.step(message("Copying the backup"), 10)
        size = copy_point(
            source,
            target,
            backup_id,
            locked_until=retained_until.timestamp() if is_locked else None,
            progress=work.report_progress,
            on_chunk=limit.wait,
        )
    backup_copies.record_complete(get_copy(work), size=size, is_locked=is_locked)


def on_delete_failed(row, error):
    """Leave the copy as it was when the destination was not changed. Otherwise the outcome is not known."""
    copy = backup_copies.find_by_id(row.resource_id)
    if copy is not None and "is_dispatched" not in row.arguments:
        copy.status = row.arguments["earlier_status"]
    else:
        backup_copies.record_failed(row.resource_id, error)


@task_handler("backup_copy_delete", on_failure=on_delete_failed)
def delete(work):
    """Remove a copy. What only it used becomes garbage."""
    row = get_copy(work)
    backup_copies.ensure_deletable(row)
    backup_id = row.backup_id
    if row.repository.initialized_at is not None:
        work.step(message("Connecting to the storage"), 10)
        with explained_errors(), open_repository(row.repository) as repository:
            backup_copies.ensure_deletable(get_copy(work))
            work.update(arguments=work.task.arguments | {"is_dispatched": True})
            work.step(message("Removing the copy"), 50)
            repository.delete_point(backup_id)
    session.delete(get_copy(work))


@periodic(seconds=3600)
def start_due():
    backup_copies.start_due()
    session.commit()
