"""A pump, lines on real TCP connections, and somebody at both of their ends."""

import queue
import time

import pytest

from consoles import close_codes
from consoles.event_loop import EventLoop
from consoles.vnc import VncConsole, VncTarget
from tests.support import console_client, vnc_server

PASSWORD = "onceonly"


@pytest.fixture
def pump_patience():
    """How long the pump's patience lasts; a test may change it."""
    return {}


@pytest.fixture
def pump(pump_patience):
    made = EventLoop(**{"goodbye": 0.5, **pump_patience})
    made.start()
    yield made
    made.stop(close_codes.RESTARTING, 0.2)
    made.join(5)
    assert not made.is_alive()
    assert made.registered.keys() <= {made.wakeup}, "a descriptor is still watched"


@pytest.fixture
def machine():
    """Makes VNC servers."""
    made = []

    def make(play, **options):
        made.append(vnc_server.VncServer(play, **options))
        return made[-1]

    yield make
    for server in made:
        server.close()


class ConsoleSession:
    """A screen that was opened for a test: `viewer`, and what the pump told of the line."""

    def __init__(self, line, viewer):
        self.line, self.viewer, self.events = line, viewer, queue.Queue()
        line.opened = lambda _: self.events.put("opened")
        line.ended = lambda _: self.events.put("ended")

    def wait_for(self, event):
        assert self.events.get(timeout=20) == event

    @property
    def word(self):
        return self.line.close_reason.word


@pytest.fixture
def screen(pump):
    """Opens a screen of a VNC server, and signs in."""
    opened = []

    def make(
        server, password=PASSWORD, node_password="nodepass", port=None, small=False, signs_in=True, via=None, **more
    ):
        mine, other = console_client.socket_pair(small=small)
        viewer = console_client.ConsoleClient(mine)
        target = VncTarget(server.host, port or server.port, password, node_password, via)
        line = VncConsole(other, {"key": console_client.WEBSOCKET_KEY, "protocols": ["binary"]}, target, **more)
        session = ConsoleSession(line, viewer)
        line.prepare()
        pump.add(line)
        assert viewer.hear_answer() == 101
        if signs_in:
            assert viewer.sign_in(password) is None
            session.wait_for("opened")
        opened.append(mine)
        return session

    yield make
    for connection in opened:
        connection.close()


def wait_until(condition, what, timeout=20):
    end = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.01)
