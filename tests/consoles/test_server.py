"""The console process: who may give it orders, what it answers, and how it ends."""

import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest

from consoles import ipc, server
from consoles.event_loop import EventLoop
from consoles.server import ConsoleServer
from tests.consoles.conftest import PASSWORD, wait_until
from tests.support import console_client


@pytest.fixture
def path():
    with tempfile.TemporaryDirectory() as directory:
        yield Path(directory) / "consoles.sock"


@pytest.fixture
def reports():
    return []


@pytest.fixture
def consoles(path, reports):
    made = ConsoleServer(path, report=reports.append, event_loop=EventLoop(goodbye=1))
    made.start()
    yield made
    made.stop(0.05)


def echo(connection):
    while data := connection.recv(65536):
        connection.sendall(data)


@pytest.fixture
def connect_browser(path, machine):
    """Opens screens as the web does, but for the web server."""
    server, opened = machine(echo), []

    def make(session="s1", goes=True, **more):
        mine, other = console_client.socket_pair()
        opened.append(mine)
        target = {"host": server.host, "port": server.port, "password": PASSWORD, "node_password": "nodepass"}
        handshake = {"key": console_client.WEBSOCKET_KEY, "protocols": ["binary"]}
        note = {"kind": "screen", "id": session, "handshake": handshake, "target": target, **more}
        browser = console_client.ConsoleClient(mine, "binary")
        with other, ipc.connect(path, 5) as line:
            ipc.send(line, {"do": "open", **note}, other.fileno())
            browser.answer = ipc.receive(line)
            if browser.answer["ok"] and goes:
                ipc.send(line, {"do": "go"})
        return browser

    yield make
    for connection in opened:
        connection.close()


def is_working(browser):
    assert browser.hear_answer() == 101
    assert browser.sign_in(PASSWORD) is None
    return browser


def test_only_its_user_may_give_orders(consoles, path, monkeypatch):
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert ipc.request(path, {"do": "list"}) == {"open": []}
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    monkeypatch.setattr(server.struct, "unpack", lambda *_: (1, 4321, 1))
    with pytest.raises((ValueError, OSError)):
        ipc.request(path, {"do": "list"})


def test_what_is_open_is_listed_and_told(consoles, path, connect_browser, reports):
    browser = is_working(connect_browser(labels={"instance": "i1", "account": "ada"}))
    wait_until(lambda: reports, "the report")
    (listed,) = ipc.request(path, {"do": "list"})["open"]
    assert listed["labels"] == {"instance": "i1", "account": "ada", "session": "s1"}
    assert listed["kind"] == "screen"
    browser.send(b"12345")
    browser.read(5)
    browser.close()
    wait_until(lambda: len(reports) == 2, "the second report")
    assert [(told["event"], told["labels"]["session"]) for told in reports] == [("opened", "s1"), ("ended", "s1")]
    assert reports[1]["reason"] == "left"
    assert reports[1]["message"] == "The browser closed the console."
    assert reports[1]["seconds"] >= reports[1]["watched"] >= 0
    assert (reports[1]["bytes_in"], reports[1]["bytes_out"]) == (12 + 1 + 16 + 1 + 5, 12 + 2 + 16 + 4 + 5)
    assert ipc.request(path, {"do": "list"}) == {"open": []}


def test_consoles_are_closed_by_what_they_belong_to(consoles, path, connect_browser, reports):
    labels = [("i1", "ada"), ("i2", "ada"), ("i1", "bob")]
    browsers = [
        is_working(connect_browser(f"s{number}", labels={"instance": instance, "account": account}))
        for number, (instance, account) in enumerate(labels)
    ]
    close = {"do": "close", "because": "The instance was destroyed."}
    assert ipc.request(path, {**close, "where": {"instance": "i1", "account": "ada"}}) == {"closed": 1}
    assert browsers[0].ended() == (1008, "The instance was destroyed.")
    wait_until(lambda: len(consoles.lines) == 2, "the first to be gone")
    assert ipc.request(path, {**close, "where": {"session": "s2"}}) == {"closed": 1}
    assert browsers[2].ended() == (1008, "The instance was destroyed.")
    assert ipc.request(path, {**close, "where": {"account": "nobody"}}) == {"closed": 0}
    assert ipc.request(path, {**close, "where": {}})["ok"] is False
    browsers[1].send(b"still")
    assert browsers[1].read(5) == b"still"
    assert {told["reason"] for told in reports if told["event"] == "ended"} == {"closed"}


def test_a_limit_counts_what_is_open(consoles, connect_browser):
    first, second = (connect_browser(f"s{n}", labels={"account": "ada"}, limits={"account": 2}) for n in range(2))
    third = connect_browser("s2", labels={"account": "ada"}, limits={"account": 2})
    assert third.answer["reason"] == "busy"
    assert third.answer["message"] == "2 consoles of the same account are open already. Close one of them."
    assert connect_browser("s3", labels={"account": "bob"}, limits={"account": 2}).answer == {"ok": True}
    is_working(first).close()
    wait_until(lambda: len(consoles.lines) == 2, "the first to be gone")
    assert connect_browser("s4", labels={"account": "ada"}, limits={"account": 2}).answer == {"ok": True}
    is_working(second)


def test_a_web_that_dies_before_it_let_go_keeps_the_connection(consoles, connect_browser):
    browser = connect_browser(goes=False)
    assert browser.answer == {"ok": True}
    wait_until(lambda: not consoles.lines, "the place to be free")
    browser.connection.settimeout(0.2)
    assert browser.connection.recv(100) == b""  # closed by its last owner, the test; never answered


@pytest.mark.parametrize(
    "text",
    [b"", b"no json\n", b"[]\n", b"{}\n", b'{"do":"open"}\n', b'{"do":"open","kind":"x"}\n', b"x" * 70_000 + b"\n"],
)
def test_orders_that_make_no_sense_are_survived(consoles, path, text):
    before = len(os.listdir("/proc/self/fd"))
    for with_connection in (False, True):
        with (
            ipc.connect(path, 5) as line,
            socket.socket() as connection,
            suppress(BrokenPipeError, ConnectionResetError),
        ):
            sent = socket.send_fds(line, [text], [connection.fileno()]) if with_connection and text else 0
            line.sendall(text[sent:])
            line.shutdown(socket.SHUT_WR)
            assert line.recv(1000)[:12] in (b"", b'{"ok":false,')
    assert ipc.request(path, {"do": "list"}) == {"open": []}
    wait_until(lambda: len(os.listdir("/proc/self/fd")) <= before, "descriptors to be closed")


def test_sigterm_stops_the_console_server(path, machine, connect_browser, tmp_path):
    command = [sys.executable, "-m", "consoles", str(path)]
    environ = {**os.environ, "PANEL_DATA_DIR": str(tmp_path)}
    running = subprocess.Popen(command, env=environ, stderr=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2])
    wait_until(path.exists, "the process", 60)
    browser = is_working(connect_browser())
    second = subprocess.run(command, env=environ, capture_output=True, text=True, cwd=Path(__file__).parents[2])
    assert second.returncode == 1
    assert f"A console process listens on {path} already." in second.stderr
    running.send_signal(signal.SIGTERM)
    assert browser.ended() == (1001, "The panel is being restarted. Open the console again in a moment.")
    _, said = running.communicate(timeout=20)
    assert running.returncode == 0, said
    assert "console_ended" in said
    assert not path.exists()


def test_a_socket_that_a_dead_process_left_is_replaced(path):
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    made = ConsoleServer(path)
    made.start()
    assert ipc.request(path, {"do": "list"}) == {"open": []}
    made.stop(0.1)


def test_it_stops_also_when_a_browser_does_not_answer(consoles, connect_browser, path):
    browser = is_working(connect_browser())
    consoles.stop(0.3)
    assert not consoles.event_loop.is_alive()
    assert not path.exists()
    assert browser.next_frame()[0] == console_client.CLOSE


@pytest.fixture(autouse=True)
def stopped_once(monkeypatch):
    """A test may stop what its fixture stops again."""
    stop = ConsoleServer.stop

    def once(self, *args):
        if self.listener.fileno() >= 0:
            stop(self, *args)

    monkeypatch.setattr(ConsoleServer, "stop", once)
