"""Checking backup destinations."""

import os
import uuid
from pathlib import Path

import structlog
from sqlalchemy import select

from panel.core import clock
from panel.core.db import lock_row, session
from panel.core.messages import message
from panel.models import BackupDestination
from panel.services import backup_destinations
from worker.backups.errors import StoreError
from worker.backups.targets import LocalTarget
from worker.engine.registry import periodic

log = structlog.get_logger()

REACHABILITY, WRITE_ACCESS = "reachability", "write_access"
CHECK_FOLDER = "check"
"""Folder in the destination with the objects of checks."""


@periodic(seconds=300)
def check_all():
    """Check all destinations that are enabled."""
    for destination_id in session.scalars(select(BackupDestination.id).where(BackupDestination.enabled)).all():
        check(destination_id)


def check(destination_id):
    """Check whether the destination can be reached and written to, and record the result."""
    destination = session.get(BackupDestination, destination_id)
    if destination is None:
        return session.rollback()
    folder = Path(destination.config["path"])
    repository_id = backup_destinations.find_initialized_repository(destination)
    session.commit()
    if repository_id and not (folder / repository_id).is_dir():  # a disk that is not mounted
        steps, sizes = [build_failed_step(REACHABILITY, "the stored backups are not there")], {}
    else:
        steps, sizes = check_folder(folder)
    destination = lock_row(BackupDestination, destination_id)
    if destination is not None and Path(destination.config["path"]) == folder:
        backup_destinations.record_check(destination, steps, at=clock.now(), **sizes)
        log.info("backup_destination_checked", destination=destination.name, status=destination.status)
    session.commit()


def check_on_request(destination_id):
    """Check the destination while a request waits for the result."""
    check(destination_id)


def check_folder(folder):
    """Return the steps up to the first that failed, and the sizes of the file system."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = os.statvfs(folder)
    except OSError as error:
        return [build_failed_step(REACHABILITY, error.strerror)], {}
    steps, sizes = (
        [build_passed_step(REACHABILITY)],
        {
            "capacity": status.f_blocks * status.f_frsize,
            "free": status.f_bavail * status.f_frsize,
        },
    )
    target, name, content = LocalTarget(folder / CHECK_FOLDER), uuid.uuid4().hex, os.urandom(32)
    try:
        target.put(name, content)
        is_intact = target.get(name) == content
        target.delete(name)
    except StoreError as error:
        cause = error.__cause__
        return [*steps, build_failed_step(WRITE_ACCESS, getattr(cause, "strerror", None) or str(error))], sizes
    if not is_intact:
        return [*steps, build_failed_step(WRITE_ACCESS, "it returns other content than was stored")], sizes
    return [*steps, build_passed_step(WRITE_ACCESS)], sizes


def build_passed_step(name):
    return {"name": name, "success": True, "message": None}


def build_failed_step(name, reason):
    labels = {
        REACHABILITY: message("The directory cannot be used: {reason}.", reason=reason),
        WRITE_ACCESS: message("Nothing can be stored in the directory: {reason}.", reason=reason),
    }
    return {"name": name, "success": False, "message": str(labels[name])}
