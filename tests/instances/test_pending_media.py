"""Mounting an ISO that somebody is fetching already."""

from types import SimpleNamespace

from sqlalchemy import delete, update

from panel.core.db import session
from panel.models import MediaDownload, Task
from panel.services import isos
from tests.conftest import queued_calls
from tests.instances.test_optical_drives import drive, instance  # noqa: F401  (fixtures)
from worker.tasks import media_downloads


def test_who_waits_for_a_download_keeps_nobody_from_writing(drive, file_server, run_tasks, monkeypatch):
    """On SQLite an open transaction of one shuts out all others, the download itself among them."""
    iso = isos.create(url=file_server.put(), actor="test")
    session.commit()
    queued_calls.clear()  # whoever fetches it has not begun
    asked, open_ones = drive("mount", iso_id=iso.id).json["task_id"], []

    def sleep(seconds):
        open_ones.append(session().in_transaction())
        session.execute(update(MediaDownload).values(status="waiting", error="The file is gone."))
        session.commit()

    monkeypatch.setattr(media_downloads, "time", SimpleNamespace(sleep=sleep))
    run_tasks()
    assert open_ones == [False]
    assert session.get(Task, asked).error == "The file is gone."


def test_a_download_that_is_deleted_meanwhile_is_named(drive, file_server, run_tasks, monkeypatch):
    """ISO-12: the task that waits for it says so."""
    iso = isos.create(url=file_server.put(), actor="test")
    session.commit()
    queued_calls.clear()
    task_id = drive("mount", iso_id=iso.id).json["task_id"]

    def sleep(seconds):
        session.execute(delete(MediaDownload))
        session.commit()

    monkeypatch.setattr(media_downloads, "time", SimpleNamespace(sleep=sleep))
    run_tasks()
    assert session.get(Task, task_id).error == "The file was deleted while this task waited for it."
