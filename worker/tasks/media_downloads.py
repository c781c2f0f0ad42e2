"""Downloading files: ISOs into the storages of nodes, images into the panel's data directory."""

import hashlib
import os
import time
from contextlib import contextmanager

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from panel.core import clock, context, jobs
from panel.core.db import lock_row, on_commit, session
from panel.core.errors import NotFound, Problem
from panel.core.messages import message
from panel.models import MediaDownload
from panel.services.media import downloads, image_files
from panel.services.media.remote_file import RemoteFile
from worker.engine.registry import periodic, task_handler
from worker.engine.runner import TASK_WAIT_INTERVAL_SECONDS


class Superseded(Problem):
    """Another attempt of the download replaces this one."""


def on_download_failed(row, error):
    """Record the error in the task's download, unless another attempt replaces it."""
    query = select(MediaDownload).where(MediaDownload.task_id == row.id, MediaDownload.status == "running")
    for download in session.scalars(query):
        downloads.record_failure(download, error)
        image_files.mark_failed(download.image, error)


@task_handler("media_download", on_failure=on_download_failed)
def download(work):
    row = find_download(work.task.arguments["download_id"])
    if row is None or row.task_id != work.task.id:
        return
    fetch(work, row)
    on_commit(lambda: jobs.enqueue_call("worker.tasks.media_downloads.start_due"))


def find_download(download_id):
    return session.get(MediaDownload, download_id, populate_existing=True)


def fetch(work, row):
    """Download the file and record it. `row` belongs to this task."""
    work.step(message("Downloading {name:.100}", name=row.file.name), 5)
    arrive = store_on_node if row.storage else store_in_folder
    volume, size, *facts = arrive(work, row)
    row = lock_row(MediaDownload, row.id)
    if row is None or row.task_id != work.task.id:
        raise Superseded(message("It was replaced by another attempt."))
    downloads.record_success(row, volume, size)
    row.file.size = size
    if row.image:
        image_files.mark_complete(row.image, *facts)


def store_on_node(work, row):
    """Stream the bytes into the node's storage. If the checksum is wrong, nothing stays."""
    volume, pool, file = f"iso-{work.task.id}.iso", row.storage.name, row.iso
    node, report = work.node, make_progress_reporter(work, row.id)
    session.commit()
    with RemoteFile(file.url, file.sha256) as source:
        work.undo("delete_disk", pool, volume)
        node.upload_media(pool, volume, source, source.size, report)
        return volume, source.size


def store_in_folder(work, row):
    """Write the file under a temporary name and move it to its place when it is complete."""
    folder = context.current().config.data_dir / "images"
    folder.mkdir(parents=True, exist_ok=True)
    image, report = row.image, make_progress_reporter(work, row.id)
    session.commit()
    with RemoteFile(image.url, image.expected_sha256) as source, temporary_file(folder) as (path, file):
        digest, done = hashlib.sha256(), 0
        while chunk := source.read(2**20):
            file.write(chunk)
            digest.update(chunk)
            done += len(chunk)
            report(done, source.size)
        file.close()
        facts = image_files.read_virtual_size(path)
        os.replace(path, folder / f"{image.id}-{digest.hexdigest()[:16]}.qcow2")
        return None, source.size, digest.hexdigest(), facts


@contextmanager
def temporary_file(folder):
    """Yield a new file with a unique name, which is deleted at the end unless it was moved."""
    path = folder / f".{os.getpid()}-{time.monotonic_ns()}.part"
    try:
        with path.open("wb") as file:
            yield path, file
    finally:
        path.unlink(missing_ok=True)


def make_progress_reporter(work, download_id):
    """Return a callback that records progress, and raises Superseded when another attempt replaces this one."""
    next_write_at = 0.0

    def moved(done, total):
        nonlocal next_write_at
        work.report_progress(done, total)
        if done < total and time.monotonic() < next_write_at:
            return
        next_write_at = time.monotonic() + 1
        with Session(work.database, join_transaction_mode="create_savepoint") as own_session:
            owned = update(MediaDownload).where(MediaDownload.id == download_id, MediaDownload.task_id == work.task.id)
            statement = owned.values(bytes_done=done, bytes_total=total, updated_at=clock.now())
            is_current = own_session.execute(statement.execution_options(synchronize_session=False)).rowcount
            own_session.commit()
        if not is_current:
            raise Superseded(message("It was replaced by another attempt."))

    return moved


def wait_for_file(work, iso, storage, is_needed=lambda: True):
    """Return the ISO's complete download in the storage. Waits for one in progress, or downloads the file itself.

    Raises Problem when the download fails. Returns None when `is_needed` returns False.
    """
    row = downloads.get_or_create(iso, storage)
    session.commit()
    is_announced = False
    while downloads.is_in_flight(row) and row.task_id != work.task.id:
        if not is_announced:
            work.step(message("Waiting for the download of {iso:.100}", iso=iso.name), 5)
            is_announced = True
        if not is_needed():
            return None
        work.check()  # ends the transaction: an open one would lock out other writers of SQLite
        time.sleep(TASK_WAIT_INTERVAL_SECONDS)
        row = find_download(row.id)
        if row is None:
            raise NotFound(message("The file was deleted while this task waited for it."))
        if row.status == "waiting":
            raise Problem(row.error or message("The download failed."))
    if row.status == "ready":
        return row
    downloads.claim(row, work.task.id)
    fetch(work, row)
    return row


@task_handler("media_delete")
def delete(work):
    work.step(message("Removing the file"), 20)
    work.node.delete_disk(work.task.arguments["pool"], work.task.arguments["volume"])


@periodic(seconds=60)
def start_due():
    """Start due downloads. Called by the scheduler."""
    downloads.start_due()
    session.commit()
