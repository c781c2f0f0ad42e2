"""Streams of changes on real connections, without Redis and database: what is sent, when, and when streams end."""

import socket
import time
from contextlib import nullcontext
from types import SimpleNamespace

import orjson
import pytest
from sqlalchemy.exc import OperationalError

from consoles import event_stream, live_updates
from consoles.live_updates import LiveUpdates
from panel.auth import live_viewers, permissions
from panel.auth.live_viewers import LiveViewer
from panel.core.live_changes import Change
from panel.services.access import Access
from tests.support.waiting import wait_until

ADA, BOB = (LiveViewer(Access(name, name, f"{name}@example.com")) for name in ("ada", "bob"))
MEMBER = LiveViewer(Access("ada", "meg", "meg@example.com"))
OPERATOR = LiveViewer(Access("eve", "eve", "eve@example.com"), permissions.OPERATOR_ROLES["full"])


class Reader:
    """The browser's end of a stream."""

    def __init__(self, connection):
        self.connection = connection
        connection.settimeout(5)
        self.lines = connection.makefile("rb")
        assert self.lines.readline() == b"HTTP/1.1 200 OK\r\n"
        while self.lines.readline() != b"\r\n":
            pass

    def read(self):
        """Return the next event's id, name and data; None at the end."""
        fields = {}
        while (line := self.lines.readline().decode()) != "\n":
            if not line:
                return None
            name, _, value = line.strip().partition(": ")
            fields[name] = value
        return int(fields["id"]), fields["event"], orjson.loads(fields["data"])


@pytest.fixture
def viewers(monkeypatch):
    """The viewers by session. A test changes them."""
    viewers = {"ada": ADA, "bob": BOB, "member": MEMBER, "operator": OPERATOR}
    monkeypatch.setattr(live_viewers, "load_viewers", lambda ids: {id_: viewers[id_] for id_ in ids if id_ in viewers})
    return viewers


@pytest.fixture
def live(viewers):
    live = LiveUpdates(SimpleNamespace(app_context=nullcontext), "")
    live.history_start = live_updates.get_milliseconds()
    live.event_loop.start()
    yield live
    live.stop()
    assert not live.event_loop.is_alive()
    assert live.event_loop.registered == {}, "a connection is still watched"


@pytest.fixture
def open_stream(live):
    """Return a function that opens a stream of a session."""
    connections = []

    def open_one(session_id, since=None):
        client, server = socket.socketpair()
        connections.append(client)
        live.add_stream(server, session_id, live_updates.get_milliseconds() + 2000 if since is None else since)
        live.open_streams([])
        return Reader(client)

    yield open_one
    for connection in connections:
        connection.close()


def test_change_is_sent_to_its_account_and_operators(live, open_stream):
    ada, bob, operator = (open_stream(session) for session in ("ada", "bob", "operator"))
    assert [reader.read()[1:] for reader in (ada, bob, operator)] == [("ready", [])] * 3
    live.dispatch(
        [Change("ada", "tasks", "t1", "i1"), Change("bob", "instances", "i2"), Change(None, "hypervisors", "h")]
    )
    assert ada.read()[1:] == ("change", [["tasks", "t1", "i1"]])
    assert bob.read()[1:] == ("change", [["instances", "i2", ""]])
    assert len(operator.read()[2]) == 3


def test_member_gets_changes_of_the_team_and_of_its_own_inbox(live, open_stream):
    member = open_stream("member")
    member.read()
    changes = [Change("ada", "tasks", "t1"), Change("ada", "inbox_messages"), Change("meg", "inbox_messages")]
    live.dispatch([*changes, Change("meg", "tasks", "t2")])
    assert sorted(member.read()[2]) == [["inbox_messages", "", ""], ["tasks", "t1", ""]]


def test_many_changes_name_only_the_table(live, open_stream):
    reader = open_stream("ada")
    reader.read()
    live.dispatch([Change("ada", "tasks", str(number)) for number in range(live_updates.MAX_IDS_PER_EVENT + 1)])
    assert reader.read()[2] == [["tasks", "", ""]]


def test_new_stream_gets_what_happened_since_the_page_was_made(live, open_stream):
    since = live_updates.get_milliseconds() + live_updates.CLOCK_DIFFERENCE_MS
    live.dispatch([Change("ada", "tasks", "missed"), Change("bob", "tasks", "other")])
    reader = open_stream("ada", since)
    first, second = reader.read(), reader.read()
    assert (first[1], second[1:]) == ("ready", ("change", [["tasks", "missed", ""]]))
    assert first[0] < second[0]


@pytest.mark.parametrize("since", [0, 1])
def test_stream_of_an_old_page_begins_with_reload(open_stream, since):
    assert open_stream("ada", since).read()[1:] == ("reload", [])


def test_stream_ends_with_its_session_and_others_go_on(live, viewers, open_stream):
    ada, bob = open_stream("ada"), open_stream("bob")
    ada.read(), bob.read()
    del viewers["ada"]
    live.check_viewers()
    assert ada.read() is None
    live.dispatch([Change("ada", "tasks", "a"), Change("bob", "tasks", "b")])
    assert bob.read()[2] == [["tasks", "b", ""]]
    assert len(live.streams) == 1


def test_changed_right_applies_to_an_open_stream(live, viewers, open_stream):
    reader = open_stream("operator")
    reader.read()
    viewers["operator"] = LiveViewer(OPERATOR.access)
    live.check_viewers()
    live.dispatch([Change(None, "hypervisors", "h"), Change("eve", "tasks", "own")])
    assert reader.read()[2] == [["tasks", "own", ""]]


def test_stream_of_an_unknown_session_ends_without_an_event(open_stream):
    assert open_stream("nobody").read() is None


def test_browser_that_leaves_is_forgotten(live, open_stream):
    reader = open_stream("ada")
    reader.read()
    reader.lines.close()
    reader.connection.close()
    wait_until(lambda: not live.streams and not live.streams_by_account, "the end of the stream")


def test_browser_that_does_not_read_is_dropped(live, open_stream, monkeypatch):
    monkeypatch.setattr(event_stream, "MAX_UNSENT_BYTES", 1 << 16)
    open_stream("ada").read()
    for _ in range(200):
        live.dispatch([Change("ada", "tasks", str(number) * 36) for number in range(live_updates.MAX_IDS_PER_EVENT)])
    wait_until(lambda: not live.streams, "the end of the stream")


def test_streams_end_while_the_database_is_away(live, open_stream, monkeypatch):
    """Rights that nobody can check do not count for more than five seconds."""
    reader = open_stream("ada")
    reader.read()

    def fail(ids):
        raise OperationalError("select", {}, Exception("away"))

    monkeypatch.setattr(live_viewers, "load_viewers", fail)
    assert not live.run_viewer_job(live.check_viewers)
    live.viewers_checked_at = time.monotonic() - live_updates.VIEWER_TRUST_SECONDS
    subscription = SimpleNamespace(ping=live.stop_requested.set, get_message=lambda timeout: None)
    monkeypatch.setattr(live_updates, "REDIS_PING_SECONDS", -1)
    live.read_subscription(subscription)
    assert reader.read() is None


def test_streams_are_refused_without_redis_and_beyond_the_limits(live, open_stream, monkeypatch):
    assert live.find_refusal("ada") is None
    open_stream("ada").read()
    monkeypatch.setattr(live_updates, "MAX_STREAMS_PER_SESSION", 1)
    assert (live.find_refusal("ada"), live.find_refusal("bob")) == ("busy", None)
    live.history_start = None
    assert live.find_refusal("bob") == "no_changes"
