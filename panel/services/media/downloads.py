"""When a file is downloaded to a storage, and when again (ISO-18 to ISO-22).

Every storage and file has its own back-off. A stalled attempt does not delay the next one.
"""

from datetime import timedelta

from sqlalchemy import Select, func, or_, select
from sqlalchemy.orm import joinedload

from panel.core import clock, jobs
from panel.core.db import session
from panel.core.task_kinds import task_kind
from panel.models import Hypervisor, Image, Iso, MediaDownload, Storage, Task

task_kind("media_download", "File download")

FIRST_RETRY_DELAY, MAX_RETRY_DELAY = timedelta(minutes=10), timedelta(hours=24)
DOWNLOAD_STALE_AFTER = timedelta(minutes=15)
MAX_BACKGROUND_DOWNLOADS = 4
"""Maximum number of concurrent downloads that the scheduler starts, because workers have other tasks as well."""


def find_library_storage(hypervisor_id: str) -> Storage | None:
    """Return the storage of a node that holds its library, or None."""
    query = select(Storage).where(Storage.hypervisor_id == hypervisor_id, Storage.enabled)
    return session.scalar(query.order_by(Storage.name).limit(1))


def get_or_create(file: Image | Iso, storage: Storage | None = None) -> MediaDownload:
    """Return the row of this file in this storage (None: the panel's own folder); create it if needed."""
    key = {f"{file.__tablename__[:-1]}_id": file.id, "storage_id": storage and storage.id}
    download = session.scalar(select(MediaDownload).filter_by(**key))
    if download is None:
        download = MediaDownload(**key)
        session.add(download)
        session.flush()
    return download


def is_in_flight(download: MediaDownload) -> bool:
    """Return whether an attempt is under way: it progressed lately, and nobody requested another since it started."""
    reset, task = download.file.download_reset_at, find_attempt(download)
    return bool(
        download.status == "running"
        and task
        and task.open
        and download.updated_at > clock.now() - DOWNLOAD_STALE_AFTER
        and (reset is None or (download.started_at is not None and download.started_at >= reset))
    )


def start(download: MediaDownload, *, actor: str = "system") -> Task | None:
    """Enqueue an attempt and return its task; None when one is under way or the file is there."""
    if download.status == "ready" or is_in_flight(download):
        return None
    file = download.file
    task = jobs.enqueue(
        "media_download",
        file.__tablename__[:-1],
        file,
        lock="light",
        actor=actor,
        hypervisor_id=download.hypervisor_id,
        arguments={"download_id": download.id},
    )
    claim(download, task.id)
    return task


def claim(download: MediaDownload, task_id: str) -> None:
    """Make this task's attempt the current one; all others are ignored."""
    download.status, download.task_id, download.started_at = "running", task_id, clock.now()
    download.updated_at = clock.now()
    download.bytes_done = download.bytes_total = download.next_attempt_at = None
    if download.image and download.image.status == "error":
        download.image.status = "downloading"
    session.flush()


def retry(file: Image | Iso, *, actor: str) -> list[Task]:
    """Start at once wherever the file is missing, ignoring the back-off. Return the tasks."""
    file.download_reset_at = clock.now()
    tasks = []
    for download in file.downloads:
        if download.status != "ready":
            download.attempts, download.next_attempt_at, download.error, download.error_at = 0, None, None, None
            tasks.append(start(download, actor=actor))
    session.flush()
    return [task for task in tasks if task]


def record_failure(download: MediaDownload, error: str) -> None:
    """Store the error and when the next attempt may be made."""
    pause = min(FIRST_RETRY_DELAY * 2 ** min(download.attempts, 10), MAX_RETRY_DELAY)
    download.attempts += 1
    download.status, download.error, download.error_at = "waiting", error, clock.now()
    download.next_attempt_at = clock.now() + pause


def record_success(download: MediaDownload, volume: str, size: int) -> None:
    download.status, download.volume, download.attempts = "ready", volume, 0
    download.bytes_done = download.bytes_total = size
    download.error = download.error_at = download.next_attempt_at = None


def select_due() -> Select[MediaDownload]:
    """Select what is to be started now, on reachable nodes: attempts after their back-off, and stalled ones."""
    now = clock.now()
    is_waiting = (MediaDownload.status == "waiting") & (
        MediaDownload.next_attempt_at.is_(None) | (MediaDownload.next_attempt_at <= now)
    )
    is_stalled = (MediaDownload.status == "running") & (MediaDownload.updated_at <= now - DOWNLOAD_STALE_AFTER)
    is_reachable = or_(MediaDownload.storage_id.is_(None), Hypervisor.status == "up")
    query = (
        select(MediaDownload)
        .outerjoin(Storage, Storage.id == MediaDownload.storage_id)
        .outerjoin(Hypervisor, Hypervisor.id == Storage.hypervisor_id)
        .options(joinedload(MediaDownload.iso), joinedload(MediaDownload.image))
    )
    order = MediaDownload.next_attempt_at.nulls_first(), MediaDownload.id
    return query.where(is_waiting | is_stalled, is_reachable).order_by(*order)


def start_due() -> list[Task | None]:
    """Start what is due, up to `MAX_BACKGROUND_DOWNLOADS` in all."""
    add_public_isos()
    now = clock.now()
    running_count = select(func.count()).where(
        MediaDownload.status == "running", MediaDownload.updated_at > now - DOWNLOAD_STALE_AFTER
    )
    free_slots = MAX_BACKGROUND_DOWNLOADS - session.scalars(running_count).one()
    return [start(download) for download in session.scalars(select_due().limit(free_slots))] if free_slots > 0 else []


def add_public_isos() -> None:
    """Create the downloads of the platform's ISOs for every reachable node."""
    missing = (
        select(Iso, Hypervisor.id)
        .join(Hypervisor, Hypervisor.status == "up")
        .where(Iso.public, Iso.enabled, Iso.url.startswith("https://"))
        .where(~Iso.downloads.any(MediaDownload.storage.has(Storage.hypervisor_id == Hypervisor.id)))
    )
    for iso, hypervisor_id in session.execute(missing.limit(100)).all():
        storage = find_library_storage(hypervisor_id)
        if storage:
            get_or_create(iso, storage)


def find_attempt(download: MediaDownload) -> Task | None:
    """Return the task of the current attempt, read again, or None."""
    return session.get(Task, download.task_id, populate_existing=True) if download.task_id else None
