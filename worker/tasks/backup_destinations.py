"""Checking backup destinations."""

import structlog
from sqlalchemy import select

from panel.core import clock
from panel.core.db import lock_row, session
from panel.core.errors import Invalid
from panel.core.messages import message
from panel.models import BackupDestination
from panel.services import backup_destinations, backup_growth
from worker.backups.rbs.errors import ServerFailed
from worker.backups.rbs.tls import read_fingerprint
from worker.engine.registry import periodic, task_handler
from worker.tasks.backup_destination_checks import check_storage

log = structlog.get_logger()

FINGERPRINT_TIMEOUT_SECONDS = 4.0


@periodic(seconds=300)
def check_all():
    """Check all destinations that are enabled."""
    for destination_id in session.scalars(select(BackupDestination.id).where(BackupDestination.enabled)).all():
        check(destination_id)


@periodic(seconds=3600)
def record_sizes():
    """Record what the destinations have, for their growth."""
    backup_growth.record_sizes()
    session.commit()


def check(destination_id):
    """Check whether the destination can be reached and written to, and record the result."""
    destination = session.get(BackupDestination, destination_id)
    if destination is None:
        return session.rollback()
    settings = destination.storage_type, destination.config
    repository_id = backup_destinations.find_initialized_repository(destination)
    has_copies = backup_destinations.find_copied_destination(destination) is not None
    session.commit()
    steps, sizes = check_storage(*settings, repository_id, has_copies=has_copies)
    destination = lock_row(BackupDestination, destination_id)
    if destination is not None and (destination.storage_type, destination.config) == settings:
        backup_destinations.record_check(destination, steps, at=clock.now(), **sizes)
        log.info("backup_destination_checked", destination=destination.name, status=destination.status)
    session.commit()


def check_on_request(destination_id):
    """Check the destination while a request waits for the result."""
    check(destination_id)


@task_handler("backup_fingerprint")
def read_server_fingerprint(work):
    """Read the fingerprint of a backup server. The task has the result in its arguments."""
    arguments = work.task.arguments
    work.step(message("Connecting to the server"), 10)
    try:
        fingerprint = read_fingerprint(arguments["host"], arguments["port"], FINGERPRINT_TIMEOUT_SECONDS)
    except ServerFailed as error:
        raise Invalid(message("The server cannot be reached: {reason}.", reason=error.reason)) from error
    work.update(arguments=work.task.arguments | {"fingerprint": fingerprint})
