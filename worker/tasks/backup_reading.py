"""Reading backups where they are stored, or where their copies are."""

import threading
from contextlib import ExitStack, contextmanager

import structlog

from panel.core.db import session
from panel.core.errors import Invalid
from panel.core.messages import message
from panel.models import BackupRepository
from panel.services import backup_copies, backup_verification, instance_backups
from worker.backups.repository import Repository
from worker.tasks.backup_repositories import StorageFailed, open_repository, prepare_opening, translated_errors
from worker.tasks.instance_backups import find_manifest

log = structlog.get_logger()


@contextmanager
def open_backup(backup):
    """Yield the store and the manifest of a backup. When its own storage is not available or does not have it, these
    are its copy's; and what the storage cannot give back is read from the copy."""
    backup_id, repository_id, copy = backup.id, backup.repository_id, backup_copies.find_readable(backup)
    open_copy = prepare_opening(copy.repository) if copy else None
    is_absent = backup.missing_confirmed_at is not None or backup.destination.status == "unavailable"
    with ExitStack() as stack, translated_errors():
        store = manifest = None
        if not (copy and is_absent):
            try:
                store = stack.enter_context(open_repository(backup.repository))
                with translated_errors():
                    manifest = find_manifest(store, backup_id)
            except StorageFailed as error:
                if copy is None:
                    raise
                log.warning("backup_is_read_from_copy", backup=backup_id, reason=error.detail)
        if manifest is not None and copy is not None:
            store.open_copy = build_copy_opener(stack, open_copy)
        elif copy is not None:
            repository = find_copy_repository(backup_id)
            repository_id, store = repository.id, stack.enter_context(open_repository(repository))
            manifest = find_manifest(store, backup_id)
        if manifest is None:
            raise Invalid(message("The backup is no longer in the storage."), reason="backup_missing")
        try:
            yield store, manifest
        except BaseException:
            session.rollback()
            raise
        finally:
            if isinstance(store, Repository) and store.has_found_damage:
                request_verification(repository_id)


def request_verification(repository_id):
    """Have all chunks of the repository checked. Damaged backups are marked, and new ones store the chunks again."""
    repository = session.get(BackupRepository, repository_id)
    if repository is not None:
        backup_verification.enqueue(repository, is_complete=True)
        session.commit()


def find_copy_repository(backup_id):
    """Return the repository of the copy, read again."""
    copy = backup_copies.find_readable(instance_backups.find_by_id(backup_id))
    if copy is None:
        raise Invalid(message("The backup is no longer in the storage."), reason="backup_missing")
    return copy.repository


def build_copy_opener(stack, open_copy):
    """Return a function that opens the copy once. It is called by threads that read."""
    lock, opened = threading.Lock(), []

    def open_once():
        with lock:
            if not opened:
                opened.append(open_copy())
                stack.callback(opened[0].close)
            return opened[0]

    return open_once
