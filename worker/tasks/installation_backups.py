"""Backups of the installation: storing archives in a destination, and deleting them."""

import sqlite3
from contextlib import contextmanager

import panel
from panel.backups import create as backup_creation
from panel.core import context
from panel.core.db import session
from panel.core.errors import Conflict, NotFound, Problem
from panel.core.messages import message
from panel.services import backup_destinations, installation_backups
from worker.backups import archives
from worker.backups.errors import StoreError
from worker.engine.registry import periodic, task_handler
from worker.tasks.backup_targets import build_target


class DestinationFailed(Problem):
    """The destination does not work as it should. Only operators see it, so the sentence has the reason."""

    def __init__(self, error):
        reason = getattr(error, "reason", None) or getattr(error.__cause__, "strerror", None) or str(error)
        super().__init__(message("The destination cannot be used now: {reason}.", reason=reason.rstrip(".")))
        self.detail = str(error)


@periodic(seconds=60)
def start_due():
    """Request the backup that is due, and deletions that have to be tried again."""
    installation_backups.start_due()
    installation_backups.retry_deletions()
    session.commit()


def get_run(work):
    run = installation_backups.find_by_id(work.task.resource_id)
    if run is None:
        raise NotFound(message("The backup was deleted in the meantime."))
    return run


def on_task_failed(task, error):
    run = installation_backups.find_by_id(task.resource_id)
    if run is not None and run.status != "completed":
        installation_backups.record_failure(run, error)


@task_handler("installation_backup_create", on_failure=on_task_failed)
def create(work):
    """Copy the database, and store the archive. The run is complete when all of it is stored."""
    run, config = get_run(work), context.current().config
    passphrase = installation_backups.get_settings().passphrase
    if passphrase is None:
        raise Conflict(message("There is no passphrase."), reason="passphrase_missing")
    destination = run.destination
    has_archives, target = backup_destinations.has_archives(destination), build_archive_target(destination)
    installation_backups.record_start(run)
    work.step(message("Copying the database"), 5)
    backup_creation.delete_abandoned_directories(config)
    with translated_failures(), backup_creation.copy_installation(config) as (manifest, database):
        work.step(message("Storing the archive"), 30)
        name, stored = store_archive(work, target, config, passphrase, manifest, database, has_archives=has_archives)
    work.step(message("Recording the backup"), 95)
    installation_backups.record_archive(get_run(work), name, stored.size)


def store_archive(work, target, config, passphrase, manifest, database, *, has_archives):
    """Return the name and the manifest of the stored archive."""
    total = database.stat().st_size
    if has_archives:
        archives.ensure_place(target)
    else:
        archives.mark_place(target)
    return archives.store(
        target,
        work.task.resource_id,
        lambda file: backup_creation.write_archive(file, passphrase, manifest, config, database),
        lambda size: work.report_progress(min(size, total), total),
        created_at=manifest["made_at"],
        version=panel.__version__,
    )


@task_handler("installation_backup_delete", on_failure=on_task_failed)
def delete(work):
    """Delete the archive, and then the row."""
    destination = get_run(work).destination
    has_archives, target = backup_destinations.has_archives(destination), build_archive_target(destination)
    work.step(message("Deleting the archive"), 20)
    with translated_failures():
        if has_archives:
            archives.ensure_place(target)
        archives.delete(target, work.task.resource_id)
    session.delete(get_run(work))


def build_archive_target(destination):
    return build_target(destination.storage_type, destination.config, backup_destinations.ARCHIVE_FOLDER)


@contextmanager
def translated_failures():
    """Raise Problem for the errors of targets, and of the copy in the data directory."""
    try:
        yield
    except StoreError as error:
        raise DestinationFailed(error) from error
    except (OSError, sqlite3.Error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise Problem(message("The worker cannot copy the database: {reason}.", reason=reason)) from error
