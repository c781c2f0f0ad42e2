"""Downloads of ISOs to nodes: schedule, retries, faults."""

import hashlib
import time
from datetime import timedelta

import pytest

from panel.core import clock
from panel.core.db import session
from panel.models import Iso, MediaDownload, Task
from panel.services import hypervisors, isos
from panel.services.media import downloads, remote_file
from tests.support.task_queue import queued_calls
from worker.sync import node_sync as nodes
from worker.tasks import media_downloads

ONE_HOUR = timedelta(hours=1)


@pytest.fixture
def advance_clock(monkeypatch):
    """Return a function that advances the clock: `advance_clock(minutes=10)`."""
    real, passed = clock.now, [timedelta()]
    monkeypatch.setattr(clock, "now", lambda: real() + passed[0])

    def advance(**lapse):
        passed[0] += timedelta(**lapse)

    return advance


@pytest.fixture
def run_schedule(rolled_back_app, run_tasks):
    """Return a function that starts due downloads and runs their tasks."""

    def do():
        media_downloads.start_due()
        run_tasks()

    return do


@pytest.fixture
def iso(cast, file_server):
    """An ISO of the platform whose URL gives 404."""
    created_iso = isos.create(url=file_server.url(), actor="test")
    session.commit()
    return created_iso


def get_only_download():
    session.expire_all()
    return session.query(MediaDownload).one()


def test_download_backoff_doubles_from_ten_minutes_to_one_day(iso, file_server, run_tasks, run_schedule, advance_clock):
    """ISO-18: counted by the requests that the server received."""
    run_tasks()
    assert file_server.requested_paths == ["/disc.iso"]
    pause = timedelta(minutes=10)
    for attempt in range(2, 12):
        advance_clock(seconds=pause.total_seconds() - 5)
        run_schedule()
        assert len(file_server.requested_paths) == attempt - 1, "too early"
        advance_clock(seconds=10)
        run_schedule()
        assert len(file_server.requested_paths) == attempt, "too late"
        pause = min(2 * pause, 24 * ONE_HOUR)
    assert get_only_download().attempts == 11
    assert pause == 24 * ONE_HOUR
    assert get_only_download().next_attempt_at - clock.now() <= 24 * ONE_HOUR


@pytest.mark.parametrize(
    ("answer", "text"),
    [(404, "answered with 404"), (500, "answered with 500"), (b"", "empty")],
)
def test_failed_download_returns_error(api_as, iso, file_server, run_tasks, answer, text):
    """ISO-01, ISO-19: size 0 is a failure."""
    file_server.files["/disc.iso"] = answer
    run_tasks()
    for shown in (
        api_as("owner", "GET", f"/api/iso/{iso.id}").json["iso"],
        api_as("admin", "GET", "/api/v1/isos").json["data"][0],
    ):
        assert text in shown["download_error"]
        assert shown["download_error_at"]
    task = session.query(Task).filter_by(kind="media_download").one()
    assert (task.status, text in task.error) == ("failed", True)


def test_retry_resets_backoff_and_fetches_immediately(api_as, iso, file_server, run_tasks, run_schedule, advance_clock):
    """ISO-20"""
    run_tasks()
    file_server.put()
    run_schedule()
    assert len(file_server.requested_paths) == 1
    answer = api_as("admin", "POST", f"/api/v1/iso/{iso.id}/retry")
    assert answer.status_code == 200
    assert answer.json["data"]["download_reset_at"]
    assert answer.json["data"]["download_error"] is None
    run_tasks()
    assert len(file_server.requested_paths) == 2
    assert (get_only_download().status, get_only_download().error, get_only_download().attempts) == ("ready", None, 0)
    api_as("admin", "POST", f"/api/v1/iso/{iso.id}/retry")
    run_tasks()
    assert len(file_server.requested_paths) == 2, "a complete file is not fetched again"


def test_retry_supersedes_queued_download(api_as, iso, file_server, run_tasks, advance_clock):
    """ISO-21: the older task stops when it runs."""
    file_server.put()
    first = get_only_download().task_id
    queued_calls.clear()
    advance_clock(minutes=1)
    assert downloads.is_in_flight(get_only_download())
    api_as("admin", "POST", f"/api/v1/iso/{iso.id}/retry")
    assert get_only_download().task_id != first
    run_tasks()
    assert (get_only_download().status, len(file_server.requested_paths)) == ("ready", 1)
    queued_calls.append(("worker.engine.runner.run", (first,)))
    run_tasks()
    assert (get_only_download().status, len(file_server.requested_paths)) == ("ready", 1)


def test_superseded_running_download_leaves_no_file(iso, file_server, run_tasks, node, api_as, monkeypatch):
    """ISO-21"""
    file_server.put(content=b"x" * 600_000)
    done = []
    original = media_downloads.make_progress_reporter

    def create_reporter(running, download_id):
        report = original(running, download_id)

        def progress(*bytes_):
            if not done:
                done.append(True)
                api_as("admin", "POST", f"/api/v1/iso/{iso.id}/retry")
            report(*bytes_)

        return progress

    monkeypatch.setattr(media_downloads, "make_progress_reporter", create_reporter)
    run_tasks()
    assert get_only_download().status == "ready"
    assert [disk.name for disk in node.disks("default")] == [get_only_download().volume]
    assert sorted(task.status for task in session.query(Task).filter_by(kind="media_download")) == [
        "completed",
        "failed",
    ]


def test_stalled_download_restarts_after_15_minutes(iso, file_server, run_tasks, run_schedule, advance_clock):
    """ISO-21"""
    file_server.put()
    queued_calls.clear()
    advance_clock(minutes=14)
    run_schedule()
    assert file_server.requested_paths == []
    advance_clock(minutes=2)
    run_schedule()
    assert (get_only_download().status, len(file_server.requested_paths)) == ("ready", 1)


def test_download_backoff_is_per_node(cast, iso, file_server, run_tasks, run_schedule):
    """ISO-22"""
    run_tasks()
    file_server.put()
    second = hypervisors.create(
        session.merge(cast.location), name="node-2", driver="simulated", uri="simulated://", storage_path="/srv/disks"
    )
    session.commit()
    nodes.probe(second.id)
    run_schedule()
    states = {download.hypervisor_name: download.status for download in session.query(MediaDownload)}
    assert states == {"node-1": "waiting", "node-2": "ready"}
    assert len(file_server.requested_paths) == 2


def test_download_checksum_is_verified(cast, file_server, run_tasks, node):
    content = b"the real one"
    url = file_server.put(content=content)
    right = isos.create(url=url, actor="test", sha256=hashlib.sha256(content).hexdigest())
    wrong = isos.create(url=url, actor="test", sha256="0" * 64, name="wrong")
    session.commit()
    run_tasks()
    assert session.get(Iso, right.id).downloads[0].status == "ready"
    assert "SHA-256" in session.get(Iso, wrong.id).download_error
    assert [disk.size for disk in node.disks("default")] == [len(content)]


def test_truncated_download_is_discarded(iso, file_server, run_tasks, node):
    def send_truncated(handler):
        handler.send_response(200)
        handler.send_header("Content-Length", "100000")
        handler.end_headers()
        handler.wfile.write(b"half")
        handler.wfile.flush()
        handler.connection.close()

    file_server.files["/disc.iso"] = send_truncated
    run_tasks()
    assert "broke after 4 of 100000" in get_only_download().error
    assert node.disks("default") == []


def test_download_of_unknown_or_too_large_size_is_refused(iso, file_server, run_tasks, monkeypatch):
    def send_without_length(handler):
        handler.send_response(200)
        handler.end_headers()

    file_server.files["/disc.iso"] = send_without_length
    run_tasks()
    assert "does not say how large" in get_only_download().error
    monkeypatch.setattr(remote_file.RemoteFile.__init__, "__defaults__", (None, 10))
    file_server.put()
    downloads.retry(session.get(Iso, iso.id), actor="test")
    session.commit()
    run_tasks()
    assert "larger than" in get_only_download().error


def test_download_follows_only_public_https_redirects(iso, file_server, run_tasks, run_schedule):
    """ISO-17: each address of a chain is checked."""

    def redirect_to(address):
        def answer(handler):
            handler.send_response(302)
            handler.send_header("Location", address)
            handler.send_header("Content-Length", "0")
            handler.end_headers()

        return answer

    for address, text in (
        ("https://10.0.0.1/inside.iso", "not a public address"),
        ("http://127.0.0.1/plain.iso", "The server redirects to an address without https."),
        ("/disc.iso", "too many times"),
    ):
        file_server.files["/disc.iso"] = redirect_to(address)
        downloads.retry(session.get(Iso, iso.id), actor="test")
        session.commit()
        run_tasks()
        assert text in get_only_download().error
        assert "ebhook" not in get_only_download().error
    file_server.files["/disc.iso"] = redirect_to("/really.iso")
    file_server.put("/really.iso")
    downloads.retry(session.get(Iso, iso.id), actor="test")
    session.commit()
    run_tasks()
    assert get_only_download().status == "ready"


def test_untrusted_server_certificate_is_refused(iso, file_server, run_tasks, change_config):
    file_server.put()
    change_config(webhook_ca="")
    run_tasks()
    assert "certificate" in get_only_download().error
    assert file_server.requested_paths == []


def test_slow_server_is_aborted(file_server, monkeypatch):
    file_server.put(content=b"x" * 100)
    with remote_file.RemoteFile(file_server.url()) as remote:
        monkeypatch.setattr(time, "monotonic", lambda: remote.started_at + 61)
        with pytest.raises(remote_file.FetchError, match="too slow"):
            remote.read(10)


def test_download_to_full_storage_reports_error(iso, file_server, run_tasks, node):
    file_server.put()
    node.fault("upload_media", "full")
    run_tasks()
    assert "enough space" in get_only_download().error
    assert get_only_download().status == "waiting"


def test_download_of_killed_worker_is_replaced(iso, file_server, run_tasks, node):
    """The next worker runs the rollback steps of the first."""
    file_server.put()
    task = session.get(Task, get_only_download().task_id)
    volume = f"iso-{task.id}.iso"
    node.upload_media("default", volume, remote_file.RemoteFile(file_server.url()), 4000)
    task.rollback_steps = [["delete_disk", "default", volume]]
    session.commit()
    run_tasks()
    assert [disk.name for disk in node.disks("default")] == [volume]
    assert get_only_download().status == "ready"


def test_parallel_downloads_are_limited(cast, file_server, run_schedule, run_tasks):
    for number in range(10):
        isos.create(url=file_server.put(f"/{number}.iso"), actor="test")
    session.commit()
    queued_calls.clear()
    session.query(MediaDownload).update({"status": "waiting", "next_attempt_at": None})
    session.commit()
    media_downloads.start_due()
    assert session.query(MediaDownload).filter_by(status="running").count() == downloads.MAX_BACKGROUND_DOWNLOADS
    run_tasks()
    assert session.query(MediaDownload).filter_by(status="ready").count() == 10, (
        "each completed download starts the next"
    )
