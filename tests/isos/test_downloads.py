"""When and how often nodes fetch a file."""

import hashlib
import time
from datetime import timedelta

import pytest

from panel.core import clock
from panel.core.db import session
from panel.models import Iso, MediaDownload, Task
from panel.services import hypervisors, isos
from panel.services.media import downloads, remote_file
from tests.conftest import queued_calls
from worker.sync import node_sync as nodes
from worker.tasks import media_downloads

HOUR = timedelta(hours=1)


@pytest.fixture
def advance_clock(monkeypatch):
    """Lets the clock go on: `moved(minutes=10)`."""
    real, passed = clock.now, [timedelta()]
    monkeypatch.setattr(clock, "now", lambda: real() + passed[0])

    def go_on(**lapse):
        passed[0] += timedelta(**lapse)

    return go_on


@pytest.fixture
def run_schedule(rolled_back_app, run_tasks):
    """What the schedule rings for, and the work that comes of it."""

    def do():
        media_downloads.start_due()
        run_tasks()

    return do


@pytest.fixture
def iso(cast, file_server):
    """One of the platform's, whose file is not there."""
    made = isos.create(url=file_server.url(), actor="test")
    session.commit()
    return made


def only_file():
    session.expire_all()
    return session.query(MediaDownload).one()


def test_the_pause_after_failures_doubles_from_ten_minutes_to_a_day(
    iso, file_server, run_tasks, run_schedule, advance_clock
):
    """ISO-18: counted by the fetches that the server saw."""
    run_tasks()
    assert file_server.asked == ["/disc.iso"]
    pause = timedelta(minutes=10)
    for attempt in range(2, 12):
        advance_clock(seconds=pause.total_seconds() - 5)
        run_schedule()
        assert len(file_server.asked) == attempt - 1, "too early"
        advance_clock(seconds=10)
        run_schedule()
        assert len(file_server.asked) == attempt, "too late"
        pause = min(2 * pause, 24 * HOUR)
    assert only_file().attempts == 11
    assert pause == 24 * HOUR
    assert only_file().next_attempt_at - clock.now() <= 24 * HOUR


@pytest.mark.parametrize(
    ("answer", "words"),
    [(404, "answered with 404"), (500, "answered with 500"), (b"", "empty")],
)
def test_a_failed_download_says_why(api_as, iso, file_server, run_tasks, answer, words):
    """ISO-01, ISO-19: size 0 is a failure."""
    file_server.files["/disc.iso"] = answer
    run_tasks()
    for shown in (
        api_as("owner", "GET", f"/api/iso/{iso.id}").json["iso"],
        api_as("admin", "GET", "/api/v1/isos").json["data"][0],
    ):
        assert words in shown["download_error"]
        assert shown["download_error_at"]
    task = session.query(Task).filter_by(kind="media_download").one()
    assert (task.status, words in task.error) == ("failed", True)


def test_retry_resets_the_pause_and_fetches_at_once(api_as, iso, file_server, run_tasks, run_schedule, advance_clock):
    """ISO-20"""
    run_tasks()
    file_server.put()
    run_schedule()
    assert len(file_server.asked) == 1
    answer = api_as("admin", "POST", f"/api/v1/iso/{iso.id}/retry")
    assert answer.status_code == 200
    assert answer.json["data"]["download_reset_at"]
    assert answer.json["data"]["download_error"] is None
    run_tasks()
    assert len(file_server.asked) == 2
    assert (only_file().status, only_file().error, only_file().attempts) == ("ready", None, 0)
    api_as("admin", "POST", f"/api/v1/iso/{iso.id}/retry")
    run_tasks()
    assert len(file_server.asked) == 2, "what is there is not fetched again"


def test_a_retry_begins_anew_beside_an_attempt_that_began_before_it(api_as, iso, file_server, run_tasks, advance_clock):
    """ISO-21: and the older one gives up when it moves again."""
    file_server.put()
    first = only_file().task_id
    queued_calls.clear()
    advance_clock(minutes=1)
    assert downloads.is_in_flight(only_file())
    api_as("admin", "POST", f"/api/v1/iso/{iso.id}/retry")
    assert only_file().task_id != first
    run_tasks()
    assert (only_file().status, len(file_server.asked)) == ("ready", 1)
    queued_calls.append(("worker.engine.runner.run", (first,)))
    run_tasks()
    assert (only_file().status, len(file_server.asked)) == ("ready", 1)


def test_an_attempt_that_was_overtaken_while_it_moved_leaves_nothing(
    iso, file_server, run_tasks, node, api_as, monkeypatch
):
    """ISO-21"""
    file_server.put(content=b"x" * 600_000)
    done = []
    moved = media_downloads.progress_reporter

    def overtaken(running, download_id):
        tell = moved(running, download_id)

        def progress(*bytes_):
            if not done:
                done.append(True)
                api_as("admin", "POST", f"/api/v1/iso/{iso.id}/retry")
            tell(*bytes_)

        return progress

    monkeypatch.setattr(media_downloads, "progress_reporter", overtaken)
    run_tasks()
    assert only_file().status == "ready"
    assert [disk.name for disk in node.disks("default")] == [only_file().volume]
    assert sorted(task.status for task in session.query(Task).filter_by(kind="media_download")) == [
        "completed",
        "failed",
    ]


def test_an_attempt_that_stands_still_is_begun_anew_after_a_quarter_of_an_hour(
    iso, file_server, run_tasks, run_schedule, advance_clock
):
    """ISO-21"""
    file_server.put()
    queued_calls.clear()
    advance_clock(minutes=14)
    run_schedule()
    assert file_server.asked == []
    advance_clock(minutes=2)
    run_schedule()
    assert (only_file().status, len(file_server.asked)) == ("ready", 1)


def test_the_pause_of_one_node_does_not_hold_up_another(cast, iso, file_server, run_tasks, run_schedule):
    """ISO-22"""
    run_tasks()
    file_server.put()
    second = hypervisors.create(
        session.merge(cast.location), name="node-2", driver="simulated", uri="simulated://", storage_path="/srv/disks"
    )
    session.commit()
    nodes.probe(second.id)
    run_schedule()
    states = {each.hypervisor_name: each.status for each in session.query(MediaDownload)}
    assert states == {"node-1": "waiting", "node-2": "ready"}
    assert len(file_server.asked) == 2


def test_the_checksum_is_verified(cast, file_server, run_tasks, node):
    content = b"the real one"
    url = file_server.put(content=content)
    right = isos.create(url=url, actor="test", sha256=hashlib.sha256(content).hexdigest())
    wrong = isos.create(url=url, actor="test", sha256="0" * 64, name="wrong")
    session.commit()
    run_tasks()
    assert session.get(Iso, right.id).downloads[0].status == "ready"
    assert "SHA-256" in session.get(Iso, wrong.id).download_error
    assert [disk.size for disk in node.disks("default")] == [len(content)]


def test_a_connection_that_breaks_is_no_file(iso, file_server, run_tasks, node):
    def broken(handler):
        handler.send_response(200)
        handler.send_header("Content-Length", "100000")
        handler.end_headers()
        handler.wfile.write(b"half")
        handler.wfile.flush()
        handler.connection.close()

    file_server.files["/disc.iso"] = broken
    run_tasks()
    assert "broke after 4 of 100000" in only_file().error
    assert node.disks("default") == []


def test_a_size_that_nobody_knows_or_that_is_too_large_is_refused(iso, file_server, run_tasks, monkeypatch):
    def unknown(handler):
        handler.send_response(200)
        handler.end_headers()

    file_server.files["/disc.iso"] = unknown
    run_tasks()
    assert "does not say how large" in only_file().error
    monkeypatch.setattr(remote_file.RemoteFile.__init__, "__defaults__", (None, 10))
    file_server.put()
    downloads.retry(session.get(Iso, iso.id), actor="test")
    session.commit()
    run_tasks()
    assert "larger than" in only_file().error


def test_a_server_may_send_us_on_but_not_inside(iso, file_server, run_tasks, run_schedule):
    """ISO-17: each address of a chain is checked."""

    def to(address):
        def answer(handler):
            handler.send_response(302)
            handler.send_header("Location", address)
            handler.send_header("Content-Length", "0")
            handler.end_headers()

        return answer

    for address, words in (
        ("https://10.0.0.1/inside.iso", "not a public address"),
        ("http://127.0.0.1/plain.iso", "The server redirects to an address without https."),
        ("/disc.iso", "too many times"),
    ):
        file_server.files["/disc.iso"] = to(address)
        downloads.retry(session.get(Iso, iso.id), actor="test")
        session.commit()
        run_tasks()
        assert words in only_file().error
        assert "ebhook" not in only_file().error  # acceptance E11
    file_server.files["/disc.iso"] = to("/really.iso")
    file_server.put("/really.iso")
    downloads.retry(session.get(Iso, iso.id), actor="test")
    session.commit()
    run_tasks()
    assert only_file().status == "ready"


def test_a_certificate_that_is_not_trusted_is_refused(iso, file_server, run_tasks, change_config):
    file_server.put()
    change_config(webhook_ca="")
    run_tasks()
    assert "certificate" in only_file().error
    assert file_server.asked == []


def test_a_server_that_drips_is_given_up(file_server, monkeypatch):
    file_server.put(content=b"x" * 100)
    with remote_file.RemoteFile(file_server.url()) as dripping:
        monkeypatch.setattr(time, "monotonic", lambda: dripping.started_at + 61)
        with pytest.raises(remote_file.FetchError, match="too slow"):
            dripping.read(10)


def test_a_node_without_room_says_so(iso, file_server, run_tasks, node):
    file_server.put()
    node.fault("upload_media", "full")
    run_tasks()
    assert "enough space" in only_file().error
    assert only_file().status == "waiting"


def test_a_worker_that_died_leaves_no_half_of_a_file(iso, file_server, run_tasks, node):
    """The next one takes back what the first had begun."""
    file_server.put()
    task = session.get(Task, only_file().task_id)
    volume = f"iso-{task.id}.iso"
    node.upload_media("default", volume, remote_file.RemoteFile(file_server.url()), 4000)
    task.rollback_steps = [["delete_disk", "default", volume]]
    session.commit()
    run_tasks()
    assert [disk.name for disk in node.disks("default")] == [volume]
    assert only_file().status == "ready"


def test_only_a_few_are_fetched_at_the_same_time(cast, file_server, run_schedule, run_tasks):
    for number in range(10):
        isos.create(url=file_server.put(f"/{number}.iso"), actor="test")
    session.commit()
    queued_calls.clear()
    session.query(MediaDownload).update({"status": "waiting", "next_attempt_at": None})
    session.commit()
    media_downloads.start_due()
    assert session.query(MediaDownload).filter_by(status="running").count() == downloads.MAX_BACKGROUND_DOWNLOADS
    run_tasks()
    assert session.query(MediaDownload).filter_by(status="ready").count() == 10, "the end of one begins the next"
