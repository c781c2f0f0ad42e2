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
from tests.conftest import bells
from worker.sync import node_sync as nodes
from worker.tasks import media_downloads

HOUR = timedelta(hours=1)


@pytest.fixture
def moved(monkeypatch):
    """Lets the clock go on: `moved(minutes=10)`."""
    real, passed = clock.now, [timedelta()]
    monkeypatch.setattr(clock, "now", lambda: real() + passed[0])

    def go_on(**lapse):
        passed[0] += timedelta(**lapse)

    return go_on


@pytest.fixture
def sweep(world, work):
    """What the schedule rings for, and the work that comes of it."""

    def do():
        media_downloads.sweep()
        work()

    return do


@pytest.fixture
def iso(cast, library):
    """One of the platform's, whose file is not there."""
    made = isos.create(url=library.url(), actor="test")
    session.commit()
    return made


def only():
    session.expire_all()
    return session.query(MediaDownload).one()


def test_the_pause_after_failures_doubles_from_ten_minutes_to_a_day(iso, library, work, sweep, moved):
    """ISO-18: counted by the fetches that the server saw."""
    work()
    assert library.asked == ["/disc.iso"]
    pause = timedelta(minutes=10)
    for attempt in range(2, 12):
        moved(seconds=pause.total_seconds() - 5)
        sweep()
        assert len(library.asked) == attempt - 1, "too early"
        moved(seconds=10)
        sweep()
        assert len(library.asked) == attempt, "too late"
        pause = min(2 * pause, 24 * HOUR)
    assert only().attempts == 11
    assert pause == 24 * HOUR
    assert only().next_attempt_at - clock.now() <= 24 * HOUR


@pytest.mark.parametrize(
    ("answer", "words"),
    [(404, "answered with 404"), (500, "answered with 500"), (b"", "empty")],
)
def test_a_failed_download_says_why(as_, iso, library, work, answer, words):
    """ISO-01, ISO-19: size 0 is a failure."""
    library.files["/disc.iso"] = answer
    work()
    for shown in (
        as_("owner", "GET", f"/api/iso/{iso.id}").json["iso"],
        as_("admin", "GET", "/api/v1/isos").json["data"][0],
    ):
        assert words in shown["download_error"]
        assert shown["download_error_at"]
    task = session.query(Task).filter_by(kind="media_download").one()
    assert (task.status, words in task.error) == ("failed", True)


def test_retry_resets_the_pause_and_fetches_at_once(as_, iso, library, work, sweep, moved):
    """ISO-20"""
    work()
    library.put()
    sweep()
    assert len(library.asked) == 1
    answer = as_("admin", "POST", f"/api/v1/iso/{iso.id}/retry")
    assert answer.status_code == 200
    assert answer.json["data"]["download_reset_at"]
    assert answer.json["data"]["download_error"] is None
    work()
    assert len(library.asked) == 2
    assert (only().status, only().error, only().attempts) == ("ready", None, 0)
    as_("admin", "POST", f"/api/v1/iso/{iso.id}/retry")
    work()
    assert len(library.asked) == 2, "what is there is not fetched again"


def test_a_retry_begins_anew_beside_an_attempt_that_began_before_it(as_, iso, library, work, moved):
    """ISO-21: and the older one gives up when it moves again."""
    library.put()
    first = only().task_id
    bells.clear()
    moved(minutes=1)
    assert downloads.in_flight(only())
    as_("admin", "POST", f"/api/v1/iso/{iso.id}/retry")
    assert only().task_id != first
    work()
    assert (only().status, len(library.asked)) == ("ready", 1)
    bells.append(("worker.engine.runner.run", (first,)))
    work()
    assert (only().status, len(library.asked)) == ("ready", 1)


def test_an_attempt_that_was_overtaken_while_it_moved_leaves_nothing(iso, library, work, node, as_, monkeypatch):
    """ISO-21"""
    library.put(content=b"x" * 600_000)
    done = []
    moved = media_downloads.watched

    def overtaken(running, download_id):
        tell = moved(running, download_id)

        def progress(*bytes_):
            if not done:
                done.append(True)
                as_("admin", "POST", f"/api/v1/iso/{iso.id}/retry")
            tell(*bytes_)

        return progress

    monkeypatch.setattr(media_downloads, "watched", overtaken)
    work()
    assert only().status == "ready"
    assert [disk.name for disk in node.disks("default")] == [only().volume]
    assert sorted(task.status for task in session.query(Task).filter_by(kind="media_download")) == [
        "completed",
        "failed",
    ]


def test_an_attempt_that_stands_still_is_begun_anew_after_a_quarter_of_an_hour(iso, library, work, sweep, moved):
    """ISO-21"""
    library.put()
    bells.clear()
    moved(minutes=14)
    sweep()
    assert library.asked == []
    moved(minutes=2)
    sweep()
    assert (only().status, len(library.asked)) == ("ready", 1)


def test_the_pause_of_one_node_does_not_hold_up_another(cast, iso, library, work, sweep):
    """ISO-22"""
    work()
    library.put()
    second = hypervisors.create(
        session.merge(cast.location), name="node-2", driver="simulated", uri="simulated://", storage_path="/srv/disks"
    )
    session.commit()
    nodes.check(second.id)
    sweep()
    states = {each.hypervisor_name: each.status for each in session.query(MediaDownload)}
    assert states == {"node-1": "waiting", "node-2": "ready"}
    assert len(library.asked) == 2


def test_the_checksum_is_verified(cast, library, work, node):
    content = b"the real one"
    url = library.put(content=content)
    right = isos.create(url=url, actor="test", sha256=hashlib.sha256(content).hexdigest())
    wrong = isos.create(url=url, actor="test", sha256="0" * 64, name="wrong")
    session.commit()
    work()
    assert session.get(Iso, right.id).downloads[0].status == "ready"
    assert "SHA-256" in session.get(Iso, wrong.id).download_error
    assert [disk.size for disk in node.disks("default")] == [len(content)]


def test_a_connection_that_breaks_is_no_file(iso, library, work, node):
    def broken(handler):
        handler.send_response(200)
        handler.send_header("Content-Length", "100000")
        handler.end_headers()
        handler.wfile.write(b"half")
        handler.wfile.flush()
        handler.connection.close()

    library.files["/disc.iso"] = broken
    work()
    assert "broke after 4 of 100000" in only().error
    assert node.disks("default") == []


def test_a_size_that_nobody_knows_or_that_is_too_large_is_refused(iso, library, work, monkeypatch):
    def unknown(handler):
        handler.send_response(200)
        handler.end_headers()

    library.files["/disc.iso"] = unknown
    work()
    assert "does not say how large" in only().error
    monkeypatch.setattr(remote_file.Source.__init__, "__defaults__", (None, 10))
    library.put()
    downloads.retry(session.get(Iso, iso.id), actor="test")
    session.commit()
    work()
    assert "larger than" in only().error


def test_a_server_may_send_us_on_but_not_inside(iso, library, work, sweep):
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
        ("/disc.iso", "without an end"),
    ):
        library.files["/disc.iso"] = to(address)
        downloads.retry(session.get(Iso, iso.id), actor="test")
        session.commit()
        work()
        assert words in only().error
        assert "ebhook" not in only().error  # acceptance E11
    library.files["/disc.iso"] = to("/really.iso")
    library.put("/really.iso")
    downloads.retry(session.get(Iso, iso.id), actor="test")
    session.commit()
    work()
    assert only().status == "ready"


def test_a_certificate_that_is_not_trusted_is_refused(iso, library, work, monkeypatch):
    library.put()
    monkeypatch.setattr("panel.services.webhooks.url_policy.authorities", "")
    work()
    assert "certificate" in only().error
    assert library.asked == []


def test_a_server_that_drips_is_given_up(library, monkeypatch):
    library.put(content=b"x" * 100)
    with remote_file.Source(library.url()) as dripping:
        monkeypatch.setattr(time, "monotonic", lambda: dripping.began + 61)
        with pytest.raises(remote_file.Unfetched, match="too slow"):
            dripping.read(10)


def test_a_node_without_room_says_so(iso, library, work, node):
    library.put()
    node.fault("put_medium", "full")
    work()
    assert "room" in only().error
    assert only().status == "waiting"


def test_a_worker_that_died_leaves_no_half_of_a_file(iso, library, work, node):
    """The next one takes back what the first had begun."""
    library.put()
    task = session.get(Task, only().task_id)
    volume = f"iso-{task.id}.iso"
    node.put_medium("default", volume, remote_file.Source(library.url()), 4000)
    task.undo = [["delete_disk", "default", volume]]
    session.commit()
    work()
    assert [disk.name for disk in node.disks("default")] == [volume]
    assert only().status == "ready"


def test_only_a_few_are_fetched_at_the_same_time(cast, library, sweep, work):
    for number in range(10):
        isos.create(url=library.put(f"/{number}.iso"), actor="test")
    session.commit()
    bells.clear()
    session.query(MediaDownload).update({"status": "waiting", "next_attempt_at": None})
    session.commit()
    media_downloads.sweep()
    assert session.query(MediaDownload).filter_by(status="running").count() == downloads.AT_ONCE
    work()
    assert session.query(MediaDownload).filter_by(status="ready").count() == 10, "the end of one begins the next"
