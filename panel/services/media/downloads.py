"""When a file is fetched to a place, and when again (specification, section 3): every place and file has a back-off of
its own, and an attempt that stands still does not hold up the next one."""

from datetime import timedelta

from sqlalchemy import func, or_, select
from sqlalchemy.orm import joinedload

from panel.core import clock, jobs
from panel.core.db import session
from panel.models import Hypervisor, Iso, MediaDownload, Storage, Task

FIRST_RETRY_DELAY, MAX_RETRY_DELAY = timedelta(minutes=10), timedelta(hours=24)
DOWNLOAD_STALE_AFTER = timedelta(minutes=15)
MAX_BACKGROUND_DOWNLOADS = 4
"""Downloads that nobody waits for, under way at the same time: the workers have other things to do as well."""


def find_library_storage(hypervisor_id):
    """The storage of a node where its library lies, or None."""
    usable = select(Storage).where(Storage.hypervisor_id == hypervisor_id, Storage.enabled)
    return session.scalar(usable.order_by(Storage.name).limit(1))


def get_or_create(file, storage=None):
    """The row of this file at this place (no storage: the panel's own folder), made if there is none."""
    wanted = {f"{file.__tablename__[:-1]}_id": file.id, "storage_id": storage and storage.id}
    found = session.scalar(select(MediaDownload).filter_by(**wanted))
    if found is None:
        found = MediaDownload(**wanted)
        session.add(found)
        session.flush()
    return found


def is_in_flight(download):
    """Whether an attempt counts as under way: it moved lately, and nobody asked for another one since it began."""
    reset, task = download.file.download_reset_at, find_attempt(download)
    return bool(
        download.status == "running"
        and task
        and task.open
        and download.updated_at > clock.now() - DOWNLOAD_STALE_AFTER
        and (reset is None or download.begun_at >= reset)
    )


def start(download, *, actor="system"):
    """Asks the workers for an attempt. Returns the task; None when one is under way or the file is there."""
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


def claim(download, task_id):
    """From now on this task's attempt counts and no other."""
    download.status, download.task_id, download.begun_at = "running", task_id, clock.now()
    download.updated_at = clock.now()
    download.bytes_done = download.bytes_total = download.next_attempt_at = None
    if download.image and download.image.status == "error":
        download.image.status = "downloading"
    session.flush()


def retry(file, *, actor):
    """Begins anew at once wherever the file is missing, whatever the back-off. Returns the tasks."""
    file.download_reset_at = clock.now()
    tasks = []
    for download in file.downloads:
        if download.status != "ready":
            download.attempts, download.next_attempt_at, download.error, download.error_at = 0, None, None, None
            tasks.append(start(download, actor=actor))
    session.flush()
    return [task for task in tasks if task]


def record_failure(download, error):
    """Notes the reason and when the next attempt may be made."""
    pause = min(FIRST_RETRY_DELAY * 2 ** min(download.attempts, 10), MAX_RETRY_DELAY)
    download.attempts += 1
    download.status, download.error, download.error_at = "waiting", error, clock.now()
    download.next_attempt_at = clock.now() + pause


def record_success(download, volume, size):
    download.status, download.volume, download.attempts = "ready", volume, 0
    download.bytes_done = download.bytes_total = size
    download.error = download.error_at = download.next_attempt_at = None


def select_due():
    """What is to be begun now, on nodes that answer: attempts whose time has come, and those that stood still."""
    now = clock.now()
    waits = (MediaDownload.status == "waiting") & (
        MediaDownload.next_attempt_at.is_(None) | (MediaDownload.next_attempt_at <= now)
    )
    stands = (MediaDownload.status == "running") & (MediaDownload.updated_at <= now - DOWNLOAD_STALE_AFTER)
    reachable = or_(MediaDownload.storage_id.is_(None), Hypervisor.status == "up")
    found = (
        select(MediaDownload)
        .outerjoin(Storage, Storage.id == MediaDownload.storage_id)
        .outerjoin(Hypervisor, Hypervisor.id == Storage.hypervisor_id)
        .options(joinedload(MediaDownload.iso), joinedload(MediaDownload.image))
    )
    order = MediaDownload.next_attempt_at.nulls_first(), MediaDownload.id
    return found.where(waits | stands, reachable).order_by(*order)


def start_due():
    """Begins what is due, a few at a time."""
    add_public_isos()
    now = clock.now()
    moving = select(func.count()).where(
        MediaDownload.status == "running", MediaDownload.updated_at > now - DOWNLOAD_STALE_AFTER
    )
    room = MAX_BACKGROUND_DOWNLOADS - session.scalar(moving)
    return [start(download) for download in session.scalars(select_due().limit(room))] if room > 0 else []


def add_public_isos():
    """Every node that answers gets the ISOs of the platform."""
    lacking = (
        select(Iso, Hypervisor.id)
        .join(Hypervisor, Hypervisor.status == "up")
        .where(Iso.public, Iso.enabled, Iso.url.startswith("https://"))
        .where(~Iso.downloads.any(MediaDownload.storage.has(Storage.hypervisor_id == Hypervisor.id)))
    )
    for iso, hypervisor_id in session.execute(lacking.limit(100)).all():
        storage = find_library_storage(hypervisor_id)
        if storage:
            get_or_create(iso, storage)


def find_attempt(download):
    """The task of the attempt that counts, read anew."""
    return session.get(Task, download.task_id, populate_existing=True) if download.task_id else None
