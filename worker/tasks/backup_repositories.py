"""Opening the repositories of accounts, and their garbage collection."""

from contextlib import contextmanager

from panel.core import clock, context
from panel.core.db import session
from panel.core.errors import Conflict, NotFound, Problem
from panel.core.messages import message
from panel.models import BackupRepository
from panel.services import backup_copies, backup_presence, backup_repositories, managed_backups
from worker.backups.errors import StoreError
from worker.backups.garbage import GRACE_SECONDS, collect_garbage
from worker.backups.keys import RepositoryKey
from worker.backups.repository import Repository
from worker.engine.registry import periodic, task_handler
from worker.tasks.backup_targets import build_target
from worker.tasks.rbs_stores import build_store

INDEX_FOLDER = "backup-indexes"
"""Folder of the data directory with the index of each repository, which may be deleted."""


class StorageFailed(Problem):
    """The destination does not work as it should. Customers see the sentence, operators the detail."""

    def __init__(self, detail, *, is_unanswered=False):
        super().__init__(message("The backup storage cannot be used now."))
        self.detail, self.is_unanswered = detail, is_unanswered


@contextmanager
def translated_errors():
    """Raise StorageFailed for the errors of repositories."""
    try:
        yield
    except StoreError as error:
        raise StorageFailed(str(error), is_unanswered=error.is_unanswered) from error


def get_repository(repository_id):
    """Return the row. Raise when it was deleted, with its destination or its account."""
    row = session.get(BackupRepository, repository_id)
    if row is None:
        raise NotFound(message("The repository was deleted in the meantime."))
    return row


@contextmanager
def open_repository(row):
    """Open the account's store. Its repository is created at first use only: an empty directory in its place is an
    error."""
    is_new, row_id = row.initialized_at is None, row.id
    with translated_errors():
        store = build_store(row.destination.config, row.key, row_id) if is_rbs(row) else open_chunks(row, is_new)
    try:
        if is_new:
            session.get(BackupRepository, row_id).initialized_at = clock.now()
            session.commit()
        with translated_errors():
            yield store
    finally:
        store.close()


def is_rbs(row):
    """Return whether the row's destination is a backup server, which verifies and frees space by itself."""
    return row.destination.storage_type == "rbs"


def open_chunks(row, is_new):
    """Open or create the repository of chunks, with the index that this worker has of it."""
    open_later = prepare_opening(row, is_new)
    session.commit()
    return open_later()


def prepare_opening(row, is_new=False):
    """Return a function that opens the repository of chunks, also in a thread without a database session."""
    storage_type, config, key_text, row_id = row.destination.storage_type, row.destination.config, row.key, row.id
    folder = context.current().config.data_dir / INDEX_FOLDER

    def open_later():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        key, index = RepositoryKey.from_text(key_text), folder / f"{row_id}.sqlite"
        target = build_target(storage_type, config, row_id)
        return Repository.create(target, key, index) if is_new else Repository(target, key, index)

    return open_later


@periodic(seconds=3600)
def collect_due():
    """Enqueue the garbage collection of repositories that had none for a day."""
    for row in session.scalars(backup_repositories.select_due()).all():
        backup_repositories.enqueue_collection(row)
    session.commit()


def ensure_points_stored(work, repository):
    """Record which backups and copies the destination lacks. Raise while one is missing without confirmation: until a
    second comparison what it used is no garbage."""
    started_at, points = clock.now(), set(repository.list_points())
    row = get_repository(work.task.resource_id)
    services = backup_presence, backup_copies
    missing = [service.record_comparison(row, points, started_at=started_at) for service in services]
    session.commit()
    if any(missing):
        raise Conflict(message("The storage lacks backups that it should have. Nothing was deleted."))


@task_handler("backup_collect_garbage")
def collect(work):
    """Free the space of deleted backups in a repository. Its lock is exclusive, so one runs at a time. A backup server
    frees space by itself; its snapshots are compared."""
    row = get_repository(work.task.resource_id)
    if is_rbs(row):
        return reconcile_snapshots(work, row)
    work.step(message("Looking for space to free"), 5)
    started_at, groups = clock.now(), managed_backups.map_groups(row.id)
    with open_repository(row) as repository:
        ensure_points_stored(work, repository)
        collection = collect_garbage(repository, GRACE_SECONDS, progress=lambda *_: work.check(), labels=groups)
    work.step(
        message(
            "{count} packs deleted, {bytes} bytes freed",
            count=collection.packs_deleted,
            bytes=collection.bytes_deleted,
        ),
        95,
    )
    row = get_repository(work.task.resource_id)
    managed_backups.record_count(row, collection.bytes_by_label, since=started_at)
    row.collected_at = clock.now()


def reconcile_snapshots(work, row):
    """Record what the server has. One that is missing for the first time is looked for again in an hour."""
    started_at, has_managed_retention = clock.now(), row.destination.has_managed_retention
    work.step(message("Comparing with the backup server"), 5)
    with open_repository(row) as store:
        states = store.fetch_snapshot_states()
        row = get_repository(work.task.resource_id)
        unprotected = backup_presence.record_server_states(row, states, started_at=started_at)
        if has_managed_retention:
            backup_presence.delete_pruned(row, states)
        session.commit()
        for backup_id in unprotected:
            store.set_protected(backup_id, True)
    row = get_repository(work.task.resource_id)
    managed_backups.record_count(row, {}, since=None)
    if not backup_presence.has_candidates(row):
        row.collected_at = clock.now()
