"""Mounting an ISO that is being downloaded."""

from types import SimpleNamespace

from sqlalchemy import delete, update

from panel.core.db import session
from panel.models import MediaDownload, Task
from panel.services import isos
from tests.instances.optical_drives import instance, post_drive_action  # noqa: F401  (fixtures)
from tests.support.task_queue import queued_calls
from worker.tasks import media_downloads


def test_mount_waits_for_download_without_open_transaction(post_drive_action, file_server, run_tasks, monkeypatch):
    """On SQLite an open write transaction blocks all others, including the download itself."""
    iso = isos.create(url=file_server.put(), actor="test")
    session.commit()
    queued_calls.clear()  # the download has not started
    task_id, transaction_states = post_drive_action("mount", iso_id=iso.id).json["task_id"], []

    def sleep(seconds):
        transaction_states.append(session().in_transaction())
        session.execute(update(MediaDownload).values(status="waiting", error="The file is gone."))
        session.commit()

    monkeypatch.setattr(media_downloads, "time", SimpleNamespace(sleep=sleep))
    run_tasks()
    assert transaction_states == [False]
    assert session.get(Task, task_id).error == "The file is gone."


def test_mount_fails_when_download_is_deleted(post_drive_action, file_server, run_tasks, monkeypatch):
    """ISO-12: the waiting task reports it."""
    iso = isos.create(url=file_server.put(), actor="test")
    session.commit()
    queued_calls.clear()
    task_id = post_drive_action("mount", iso_id=iso.id).json["task_id"]

    def sleep(seconds):
        session.execute(delete(MediaDownload))
        session.commit()

    monkeypatch.setattr(media_downloads, "time", SimpleNamespace(sleep=sleep))
    run_tasks()
    assert session.get(Task, task_id).error == "The file was deleted while this task waited for it."
