"""Backups of the installation itself: the schedule, its runs, and which of them are kept."""

from datetime import timedelta
from typing import Any

from sqlalchemy import Select, select
from sqlalchemy.orm import joinedload

from panel.core import clock, jobs
from panel.core.db import lock_row, session
from panel.core.errors import Conflict, Invalid, NotFound, Problem
from panel.core.messages import message
from panel.core.task_kinds import task_kind
from panel.models import BackupDestination, InstallationBackup, InstallationBackupSettings
from panel.models.backup_destinations import INSTALLATION_BACKUPS
from panel.models.installation_backups import SETTINGS_ROW_ID
from panel.schemas.installation_backups import DEFAULTS
from panel.services import backup_destinations
from panel.services.backup_policies.schedule import find_next_time
from panel.services.crud import update_fields

task_kind("installation_backup_create", "Backup of the installation")
task_kind("installation_backup_delete", "Delete backup of the installation")

FAILED_RETENTION = timedelta(days=30)
"""How long failed runs are kept."""

DELETE_RETRY_INTERVAL = timedelta(hours=1)


def listing(status: str | None = None) -> Select[InstallationBackup]:
    """Select runs with their destinations, newest first."""
    query = select(InstallationBackup).options(joinedload(InstallationBackup.destination))
    query = query.where(InstallationBackup.status == status) if status else query
    return query.order_by(InstallationBackup.id.desc())


def find_by_id(run_id: str) -> InstallationBackup | None:
    """Return the run or None, read again, for workers."""
    return session.get(InstallationBackup, run_id, populate_existing=True)


def get(run_id: str) -> InstallationBackup:
    run = session.scalar(listing().where(InstallationBackup.id == run_id))
    if run is None:
        raise NotFound(message("No such backup of the installation."))
    return run


def select_destinations(search: str = "") -> Select[BackupDestination]:
    return backup_destinations.listing(search, purpose=INSTALLATION_BACKUPS)


def select_destination_names() -> Select[str, str]:
    """Select the id and name of each destination, for a choice field."""
    return backup_destinations.select_names(purpose=INSTALLATION_BACKUPS)


def create_destination(**values: Any) -> BackupDestination:
    return backup_destinations.create(purpose=INSTALLATION_BACKUPS, **values)


def get_destination(destination_id: str | None, error_field: str | None = None) -> BackupDestination:
    return backup_destinations.get(destination_id, error_field, purpose=INSTALLATION_BACKUPS)


def get_settings() -> InstallationBackupSettings:
    """Return the settings. Without a row they are the defaults."""
    settings = session.get(InstallationBackupSettings, SETTINGS_ROW_ID)
    return settings or InstallationBackupSettings(id=SETTINGS_ROW_ID, **DEFAULTS)


def update_settings(**changes: Any) -> InstallationBackupSettings:
    """Change these settings. The next run follows from the schedule."""
    if changes.get("destination_id"):
        get_destination(changes["destination_id"], "destination_id")
    if "passphrase" in changes:
        changes["passphrase_changed_at"] = clock.now()
    settings = lock_row(InstallationBackupSettings, SETTINGS_ROW_ID) or get_settings()
    session.add(settings)
    for name, value in changes.items():
        setattr(settings, name, value)
    if settings.frequency == "daily" and changes.get("day") is not None:
        sentence = message("Daily backups have no day.")
        raise Invalid(sentence, day=sentence)
    ensure_complete(settings)
    settings.next_run_at = find_next_run(settings) if settings.enabled else None
    session.flush()
    return settings


def ensure_complete(settings: InstallationBackupSettings) -> None:
    """Raise Invalid when the schedule lacks something."""
    if settings.frequency == "daily":
        settings.day = None
    elif settings.day is None:
        sentence = message("Choose the day of weekly backups.")
        raise Invalid(sentence, day=sentence)
    if settings.enabled and settings.destination_id is None:
        sentence = message("Choose a destination before you turn backups on.")
        raise Invalid(sentence, destination_id=sentence)
    if settings.enabled and settings.passphrase is None:
        sentence = message("Set a passphrase before you turn backups on.")
        raise Invalid(sentence, passphrase=sentence)


def find_next_run(settings: InstallationBackupSettings) -> Any:
    return find_next_time("UTC", settings.time, settings.day, clock.now())


def start(destination_id: str | None = None, *, actor: str) -> InstallationBackup:
    """Request a backup to this destination, or to that of the settings."""
    settings = lock_row(InstallationBackupSettings, SETTINGS_ROW_ID)
    default_id = settings.destination_id if settings else None
    destination = get_destination(destination_id or default_id, "destination_id")
    if settings is None or settings.passphrase is None:
        raise Conflict(message("Set a passphrase in the settings of these backups first."), reason="passphrase_missing")
    if not destination.enabled:
        raise Conflict(message("The destination is disabled."), reason="destination_disabled")
    open_run = select(InstallationBackup.id).where(InstallationBackup.status.in_(("queued", "running")))
    if session.scalar(open_run.limit(1)):
        raise Conflict(message("A backup of the installation is in progress."), reason="backup_running")
    return create_run(destination, actor=actor, is_scheduled=False)


def create_run(destination: BackupDestination, *, actor: str, is_scheduled: bool) -> InstallationBackup:
    run = InstallationBackup(destination=destination, is_scheduled=is_scheduled)
    session.add(run)
    session.flush()
    enqueue_task("installation_backup_create", run, actor=actor)
    return run


def enqueue_task(kind: str, run: InstallationBackup, *, actor: str) -> None:
    jobs.enqueue(kind, "installation_backup", run, lock="exclusive", actor=actor)


def start_due() -> None:
    """Request the backup that is due. One that cannot be made is recorded as failed."""
    settings = lock_row(InstallationBackupSettings, SETTINGS_ROW_ID)
    if settings is None or settings.next_run_at is None or settings.next_run_at > clock.now():
        return
    settings.next_run_at = find_next_run(settings)
    try:
        start(actor="system").is_scheduled = True
    except Problem as error:
        if error.reason == "backup_running":
            return
        run = InstallationBackup(destination_id=settings.destination_id, is_scheduled=True)
        session.add(run)
        record_failure(run, error.message)
    session.flush()


def record_start(run: InstallationBackup) -> None:
    update_fields(run, {"status": "running", "started_at": clock.now()})


def record_archive(run: InstallationBackup, archive: str, size: int) -> None:
    """Record that the archive is complete, and delete those that are not kept any more."""
    facts = {"status": "completed", "archive": archive, "size": size, "finished_at": clock.now()}
    update_fields(run, facts)
    delete_older(run.destination)


def record_failure(run: InstallationBackup, error: str) -> None:
    """Record why the run failed, or why its archive could not be deleted."""
    if run.status != "deleting":
        run.status, run.finished_at = "failed", clock.now()
    run.error = error


def delete_older(destination: BackupDestination) -> None:
    """Request the deletion of completed backups beyond those that are kept, and of old failed runs."""
    conditions = InstallationBackup.destination_id == destination.id, InstallationBackup.status == "completed"
    completed = select(InstallationBackup).where(*conditions).order_by(InstallationBackup.id.desc())
    is_old = InstallationBackup.finished_at < clock.now() - FAILED_RETENTION
    failed = select(InstallationBackup).where(conditions[0], InstallationBackup.status == "failed", is_old)
    surplus = session.scalars(completed.offset(get_settings().retention_count).limit(100)).all()
    for run in (*surplus, *session.scalars(failed.limit(100))):
        request_deletion(run, actor="system")


def request_deletion(run: InstallationBackup, *, actor: str) -> None:
    """Have a worker delete the archive, and then the row. A deletion that failed can be requested again."""
    if run.is_open:
        raise Conflict(message("This backup is in progress."), reason="backup_running")
    enqueue_task("installation_backup_delete", run, actor=actor)
    update_fields(run, {"status": "deleting", "error": None})


def retry_deletions() -> None:
    """Request deletions again that failed an hour ago."""
    is_due = InstallationBackup.updated_at < clock.now() - DELETE_RETRY_INTERVAL
    conditions = InstallationBackup.status == "deleting", InstallationBackup.error.is_not(None), is_due
    for run in session.scalars(select(InstallationBackup).where(*conditions).limit(100)).all():
        request_deletion(run, actor="system")


def find_last_failure() -> InstallationBackup | None:
    """Return the newest scheduled run if it has failed, no backup was completed after it, and the schedule is on."""
    if not get_settings().enabled:
        return None
    ended = listing().where(InstallationBackup.status.in_(("completed", "failed")))
    ended = ended.where((InstallationBackup.status == "completed") | InstallationBackup.is_scheduled)
    run = session.scalar(ended.limit(1))
    return run if run is not None and run.status == "failed" else None
