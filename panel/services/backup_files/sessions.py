"""Sessions: the machine that reads a backup, from its request to its removal."""

from datetime import timedelta
from typing import Any

from sqlalchemy import exists, func, or_, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm.attributes import set_committed_value

from panel.core import clock, context, jobs
from panel.core.db import session
from panel.core.errors import Conflict, Invalid
from panel.core.messages import message
from panel.core.task_kinds import task_kind
from panel.models import BackupFileSession, Hypervisor, Instance, InstanceBackup, Task
from panel.models.tasks import OPEN_STATUSES
from panel.services import tasks
from panel.services.backup_restores import ensure_node_available, ensure_restorable
from panel.services.state_machine import ensure_not_suspended

task_kind("backup_files_open", "Open files of a backup")
task_kind("backup_files_close", "Close files of a backup")
task_kind("backup_files_download", "Download from a backup")

MAX_SESSIONS_PER_ACCOUNT, MAX_SESSIONS_PER_HYPERVISOR = 2, 4
MAX_COPIED_GIB = 200
"""GiB that the disks of a backup may use, because they are copied to the hypervisor."""
MIN_FREE_GIB = 10
"""GiB that stay free in the storage besides the copies."""
IDLE_MINUTES, MAX_HOURS = 30, 4
"""A session ends so long after its last use, and so long after it was opened."""
MAX_DOWNLOAD_BYTES = 4 * 1024**3
BYTES_PER_GIB = 1024**3
FOLDER = "images/backup-downloads"
"""Folder of prepared downloads. `images` is the part of the data directory that all machines share."""

IMAGE_DESCRIPTION_FILE = "images/backup-files.json"
"""The description of the image of the machine that reads backups, in the data directory."""
NO_IMAGE_MESSAGE = message("Files of backups cannot be read yet. The operator has to add an image for it.")

UNSUPPORTED_DRIVERS = ("simulated",)
"""Drivers whose disks have no file systems."""

LIVE_STATES = ("preparing", "ready")


def ensure_openable(instance: Instance, backup: InstanceBackup) -> None:
    """Raise for every reason, known before the node is called, why the files cannot be read."""
    ensure_restorable(backup)
    ensure_not_suspended(instance)
    if instance.hypervisor.driver in UNSUPPORTED_DRIVERS:
        raise Invalid(message("Files of backups cannot be read on this hypervisor."), reason="not_supported")
    if not (context.current().config.data_dir / IMAGE_DESCRIPTION_FILE).is_file():
        raise Conflict(NO_IMAGE_MESSAGE, reason="image_not_available")
    if not instance.disks:
        raise Conflict(message("Deploy an image first."), reason="not_deployed")
    copied = count_copied_bytes(backup)
    if copied > MAX_COPIED_GIB * BYTES_PER_GIB:
        sentence = message("The disks of the backup use more than {size} GiB.", size=MAX_COPIED_GIB)
        raise Invalid(sentence, reason="backup_too_large")
    if instance.disks[0].storage.free < copied + MIN_FREE_GIB * BYTES_PER_GIB:
        sentence = message("The storage has too little room for a copy of the backup. Try again later.")
        raise Invalid(sentence, reason="storage_not_sufficient")
    ensure_node_available(instance.hypervisor)


def count_copied_bytes(backup: InstanceBackup) -> int:
    """Return how much room the copies need: what the disks use, as far as it was counted."""
    used = (backup.statistics or {}).get("bytes_used")
    return used if used is not None else sum(disk["size"] for disk in backup.disks)


def open_session(instance: Instance, backup: InstanceBackup, *, actor: str) -> BackupFileSession:
    """Return the session of the backup, a new one if there is none."""
    row = find_of_backup(backup)
    if row is not None and row.state == "closing":
        raise Conflict(message("The files are being closed. Try again in a minute."), reason="task_running")
    if row is not None and row.state in LIVE_STATES:
        return row
    ensure_openable(instance, backup)
    if row is not None:
        session.delete(row)
        session.flush()
    ensure_below_limits(instance)
    now = clock.now()
    row = BackupFileSession(
        account_id=backup.account_id,
        backup_id=backup.id,
        instance_id=instance.id,
        hypervisor=instance.hypervisor,
        storage=instance.disks[0].storage,
        name=backup.name,
        expires_at=now + timedelta(hours=MAX_HOURS),
        ends_at=now + timedelta(hours=MAX_HOURS),
    )
    try:
        with session.begin_nested():
            session.add(row)
    except IntegrityError:
        raise Conflict(message("The files are being opened already."), reason="task_running") from None
    enqueue(row, "backup_files_open", lock="exclusive", actor=actor)
    return row


def ensure_below_limits(instance: Instance) -> None:
    """Raise when the account or the hypervisor has as many sessions as it may."""
    live = select(func.count()).select_from(BackupFileSession).where(BackupFileSession.state != "failed")
    limits = (
        (BackupFileSession.account_id == instance.account_id, MAX_SESSIONS_PER_ACCOUNT),
        (BackupFileSession.hypervisor_id == instance.hypervisor_id, MAX_SESSIONS_PER_HYPERVISOR),
    )
    for condition, maximum in limits:
        if session.scalars(live.where(condition)).one() >= maximum:
            sentence = message("Too many backups are opened. Close the files of another backup first.")
            raise Conflict(sentence, reason="session_limit_reached")


def enqueue(row: BackupFileSession, kind: str, *, lock: str, actor: str, **arguments: Any) -> Task:
    return jobs.enqueue(
        kind,
        "backup_file_session",
        row,
        lock=lock,
        actor=actor,
        hypervisor_id=row.hypervisor_id,
        arguments=arguments,
    )


def find_of_backup(backup: InstanceBackup) -> BackupFileSession | None:
    return session.scalar(select(BackupFileSession).where(BackupFileSession.backup_id == backup.id))


def find_by_id(session_id: str) -> BackupFileSession | None:
    """Return the session or None, read again, for workers."""
    return session.get(BackupFileSession, session_id, populate_existing=True)


def find_task(row: BackupFileSession) -> Task | None:
    """Return the open task that opens the files."""
    conditions = Task.resource_id == row.id, Task.kind == "backup_files_open", Task.status.in_(OPEN_STATUSES)
    return session.scalar(select(Task).where(*conditions))


def get_ready(backup: InstanceBackup) -> BackupFileSession:
    """Return the session of the backup, if its files can be read now, and postpone its end."""
    row = find_of_backup(backup)
    if row is None:
        raise Conflict(message("Open the files of the backup first."), reason="files_not_open")
    if row.state == "preparing":
        raise Conflict(message("The files are being prepared. Try again in a minute."), reason="files_not_ready")
    if row.state != "ready":
        raise Conflict(row.error or message("The files are closed. Open them again."), reason="files_not_open")
    record_use(row)
    return row


def record_use(row: BackupFileSession) -> None:
    """Postpone the end of the session. The audit log has what was read, and not this."""
    expires_at = min(clock.now() + timedelta(minutes=IDLE_MINUTES), row.ends_at)
    session.execute(
        update(BackupFileSession).where(BackupFileSession.id == row.id).values(expires_at=expires_at),
        execution_options={"synchronize_session": False},
    )
    set_committed_value(row, "expires_at", expires_at)


def record_ready(row: BackupFileSession, volumes: list[dict[str, Any]]) -> None:
    row.state, row.volumes = "ready", volumes
    record_use(row)


def record_open_failed(session_id: str, error: str) -> None:
    row = find_by_id(session_id)
    if row is not None and row.state == "preparing":
        row.state, row.error = "failed", error


def close(backup: InstanceBackup, *, actor: str) -> None:
    """Remove the machine and the copies. Nothing happens without a session."""
    row = find_of_backup(backup)
    if row is not None:
        close_session(row, actor=actor)


def close_session(row: BackupFileSession, *, actor: str) -> None:
    if row.state == "failed":
        session.delete(row)
    elif row.state != "closing":
        row.state = "closing"
        for task in session.scalars(select(Task).where(Task.resource_id == row.id, Task.status.in_(OPEN_STATUSES))):
            if task.cancellable:
                tasks.cancel(task)
        enqueue(row, "backup_files_close", lock="final", actor=actor)
    session.flush()


def close_due() -> None:
    """Close the sessions that nobody uses any more, and those whose backup or instance is gone; try again those whose
    closing failed."""
    has_backup = exists().where(InstanceBackup.id == BackupFileSession.backup_id)
    is_claimed = exists().where(
        InstanceBackup.id == BackupFileSession.backup_id, InstanceBackup.delete_claimed_at.is_not(None)
    )
    has_instance = exists().where(
        Instance.id == BackupFileSession.instance_id,
        Instance.account_id == BackupFileSession.account_id,
        Instance.suspended_reason.is_(None),
    )
    is_over = or_(BackupFileSession.expires_at < clock.now(), ~has_backup, is_claimed, ~has_instance)
    live = select(BackupFileSession).where(BackupFileSession.state != "closing", is_over)
    for row in session.scalars(live).all():
        close_session(row, actor="system")
    has_task = exists().where(Task.resource_id == BackupFileSession.id, Task.status.in_(OPEN_STATUSES))
    unfinished = (
        select(BackupFileSession)
        .join(BackupFileSession.hypervisor)
        .where(BackupFileSession.state == "closing", ~has_task, Hypervisor.status == "up")
    )
    for row in session.scalars(unfinished).all():
        enqueue(row, "backup_files_close", lock="final", actor="system")


def list_machine_ids(hypervisor_id: str) -> set[str]:
    """Return the ids of the machines that sessions have, or may have left."""
    query = select(BackupFileSession.id).where(BackupFileSession.hypervisor_id == hypervisor_id)
    return set(session.scalars(query))
