"""When a file is fetched to a place, and when again (specification, section 3): every place and file has a back-off of
its own, and an attempt that stands still does not hold up the next one."""

from datetime import timedelta

from sqlalchemy import func, or_, select
from sqlalchemy.orm import joinedload

from panel.core import clock, jobs
from panel.core.db import session
from panel.models import Hypervisor, Iso, MediaDownload, Storage, Task

FIRST, LONGEST = timedelta(minutes=10), timedelta(hours=24)
STALE = timedelta(minutes=15)
AT_ONCE = 4
"""Downloads that nobody waits for, under way at the same time: the workers have other things to do as well."""


def place(hypervisor_id):
    """The storage of a node where its library lies, or None."""
    usable = select(Storage).where(Storage.hypervisor_id == hypervisor_id, Storage.enabled)
    return session.scalar(usable.order_by(Storage.name).limit(1))


def of(file, storage=None):
    """The row of this file at this place (no storage: the panel's own folder), made if there is none."""
    wanted = {f"{file.__tablename__[:-1]}_id": file.id, "storage_id": storage and storage.id}
    found = session.scalar(select(MediaDownload).filter_by(**wanted))
    if found is None:
        found = MediaDownload(**wanted)
        session.add(found)
        session.flush()
    return found


def in_flight(download):
    """Whether an attempt counts as under way: it moved lately, and nobody asked for another one since it began."""
    reset, task = download.file.download_reset_at, attempt(download)
    return bool(
        download.status == "running"
        and task
        and task.open
        and download.updated_at > clock.now() - STALE
        and (reset is None or download.begun_at >= reset)
    )


def begin(download, *, actor="system"):
    """Asks the workers for an attempt. Returns the task; None when one is under way or the file is there."""
    if download.status == "ready" or in_flight(download):
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
            tasks.append(begin(download, actor=actor))
    session.flush()
    return [task for task in tasks if task]


def failed(download, error):
    """Notes the reason and when the next attempt may be made."""
    pause = min(FIRST * 2 ** min(download.attempts, 10), LONGEST)
    download.attempts += 1
    download.status, download.error, download.error_at = "waiting", error, clock.now()
    download.next_attempt_at = clock.now() + pause


def succeeded(download, volume, size):
    download.status, download.volume, download.attempts = "ready", volume, 0
    download.bytes_done = download.bytes_total = size
    download.error = download.error_at = download.next_attempt_at = None


def due():
    """What is to be begun now, on nodes that answer: attempts whose time has come, and those that stood still."""
    now = clock.now()
    waits = (MediaDownload.status == "waiting") & (
        MediaDownload.next_attempt_at.is_(None) | (MediaDownload.next_attempt_at <= now)
    )
    stands = (MediaDownload.status == "running") & (MediaDownload.updated_at <= now - STALE)
    reachable = or_(MediaDownload.storage_id.is_(None), Hypervisor.status == "up")
    found = (
        select(MediaDownload)
        .outerjoin(Storage, Storage.id == MediaDownload.storage_id)
        .outerjoin(Hypervisor, Hypervisor.id == Storage.hypervisor_id)
        .options(joinedload(MediaDownload.iso), joinedload(MediaDownload.image))
    )
    order = MediaDownload.next_attempt_at.nulls_first(), MediaDownload.id
    return found.where(waits | stands, reachable).order_by(*order)


def sweep():
    """Begins what is due, a few at a time."""
    spread_public()
    now = clock.now()
    moving = select(func.count()).where(MediaDownload.status == "running", MediaDownload.updated_at > now - STALE)
    room = AT_ONCE - session.scalar(moving)
    return [begin(download) for download in session.scalars(due().limit(room))] if room > 0 else []


def spread_public():
    """Every node that answers gets the ISOs of the platform."""
    lacking = (
        select(Iso, Hypervisor.id)
        .join(Hypervisor, Hypervisor.status == "up")
        .where(Iso.public, Iso.enabled, Iso.url.startswith("https://"))
        .where(~Iso.downloads.any(MediaDownload.storage.has(Storage.hypervisor_id == Hypervisor.id)))
    )
    for iso, hypervisor_id in session.execute(lacking.limit(100)).all():
        storage = place(hypervisor_id)
        if storage:
            of(iso, storage)


def attempt(download):
    """The task of the attempt that counts, read anew."""
    return session.get(Task, download.task_id, populate_existing=True) if download.task_id else None
