"""The console server: its commands, reports, limits and shutdown."""

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
from tests.consoles.console_session import PASSWORD
from tests.support import console_client
from tests.support.waiting import wait_until


@pytest.fixture
def socket_path():
    with tempfile.TemporaryDirectory() as directory:
        yield Path(directory) / "consoles.sock"


@pytest.fixture
def reports():
    return []


@pytest.fixture
def console_server(socket_path, reports):
    console_server = ConsoleServer(socket_path, on_report=reports.append, event_loop=EventLoop(close_timeout_seconds=1))
    console_server.start()
    yield console_server
    console_server.stop(0.05)


def echo(connection):
    while data := connection.recv(65536):
        connection.sendall(data)


@pytest.fixture
def connect_browser(socket_path, start_vnc_server):
    """Return a function that opens a console over IPC, as the web does."""
    vnc_server, connections = start_vnc_server(echo), []

    def connect(session="s1", confirms=True, **options):
        client_socket, server_socket = console_client.socket_pair()
        connections.append(client_socket)
        target = {"host": vnc_server.host, "port": vnc_server.port, "password": PASSWORD, "node_password": "nodepass"}
        handshake = {"key": console_client.WEBSOCKET_KEY, "protocols": ["binary"]}
        note = {"kind": "screen", "id": session, "handshake": handshake, "target": target, **options}
        browser = console_client.ConsoleClient(client_socket, "binary")
        with server_socket, ipc.connect(socket_path, 5) as connection:
            ipc.send(connection, {"command": "open", **note}, server_socket.fileno())
            browser.answer = ipc.receive(connection)
            if browser.answer["ok"] and confirms:
                ipc.send(connection, {"command": "start"})
        return browser

    yield connect
    for connection in connections:
        connection.close()


def sign_in(browser):
    assert browser.read_response() == 101
    assert browser.sign_in(PASSWORD) is None
    return browser


def test_commands_require_same_user(console_server, socket_path, monkeypatch):
    assert stat.S_IMODE(socket_path.stat().st_mode) == 0o600
    assert ipc.request(socket_path, {"command": "list"}) == {"open": []}
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    monkeypatch.setattr(server.struct, "unpack", lambda *_: (1, 4321, 1))
    with pytest.raises((ValueError, OSError)):
        ipc.request(socket_path, {"command": "list"})


def test_open_console_is_listed_and_reported(console_server, socket_path, connect_browser, reports):
    browser = sign_in(connect_browser(labels={"instance": "i1", "account": "ada"}))
    wait_until(lambda: reports, "the report")
    (listed,) = ipc.request(socket_path, {"command": "list"})["open"]
    assert listed["labels"] == {"instance": "i1", "account": "ada", "session": "s1"}
    assert listed["kind"] == "screen"
    browser.send(b"12345")
    browser.read(5)
    browser.close()
    wait_until(lambda: len(reports) == 2, "the second report")
    assert [(report["event"], report["labels"]["session"]) for report in reports] == [("opened", "s1"), ("ended", "s1")]
    assert reports[1]["reason"] == "left"
    assert reports[1]["message"] == "The browser closed the console."
    assert reports[1]["seconds"] >= reports[1]["open_seconds"] >= 0
    assert (reports[1]["bytes_in"], reports[1]["bytes_out"]) == (12 + 1 + 16 + 1 + 5, 12 + 2 + 16 + 4 + 5)
    assert ipc.request(socket_path, {"command": "list"}) == {"open": []}


def test_consoles_are_closed_by_labels(console_server, socket_path, connect_browser, reports):
    labels = [("i1", "ada"), ("i2", "ada"), ("i1", "bob")]
    browsers = [
        sign_in(connect_browser(f"s{number}", labels={"instance": instance, "account": account}))
        for number, (instance, account) in enumerate(labels)
    ]
    close = {"command": "close", "reason": "The instance was destroyed."}
    assert ipc.request(socket_path, {**close, "where": {"instance": "i1", "account": "ada"}}) == {"closed": 1}
    assert browsers[0].wait_until_closed() == (1008, "The instance was destroyed.")
    wait_until(lambda: len(console_server.streams) == 2, "the first console to close")
    assert ipc.request(socket_path, {**close, "where": {"session": "s2"}}) == {"closed": 1}
    assert browsers[2].wait_until_closed() == (1008, "The instance was destroyed.")
    assert ipc.request(socket_path, {**close, "where": {"account": "nobody"}}) == {"closed": 0}
    assert ipc.request(socket_path, {**close, "where": {}})["ok"] is False
    browsers[1].send(b"still")
    assert browsers[1].read(5) == b"still"
    assert {report["reason"] for report in reports if report["event"] == "ended"} == {"closed"}


def test_label_limit_counts_open_consoles(console_server, connect_browser):
    first, second = (connect_browser(f"s{n}", labels={"account": "ada"}, limits={"account": 2}) for n in range(2))
    third = connect_browser("s2", labels={"account": "ada"}, limits={"account": 2})
    assert third.answer["reason"] == "busy"
    assert third.answer["message"] == "2 consoles of the same account are open already. Close one of them."
    assert connect_browser("s3", labels={"account": "bob"}, limits={"account": 2}).answer == {"ok": True}
    sign_in(first).close()
    wait_until(lambda: len(console_server.streams) == 2, "the first console to close")
    assert connect_browser("s4", labels={"account": "ada"}, limits={"account": 2}).answer == {"ok": True}
    sign_in(second)


def test_lost_web_before_go_leaves_console_unopened(console_server, connect_browser):
    browser = connect_browser(confirms=False)
    assert browser.answer == {"ok": True}
    wait_until(lambda: not console_server.streams, "the console to be discarded")
    browser.connection.settimeout(0.2)
    assert browser.connection.recv(100) == b""  # the test held the last descriptor; the server sent nothing


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"no json\n",
        b"[]\n",
        b"{}\n",
        b'{"command":"open"}\n',
        b'{"command":"open","kind":"x"}\n',
        b"x" * 70_000 + b"\n",
    ],
)
def test_malformed_commands_leak_no_descriptors(console_server, socket_path, text):
    before = len(os.listdir("/proc/self/fd"))
    for with_connection in (False, True):
        with (
            ipc.connect(socket_path, 5) as client,
            socket.socket() as connection,
            suppress(BrokenPipeError, ConnectionResetError),
        ):
            sent = socket.send_fds(client, [text], [connection.fileno()]) if with_connection and text else 0
            client.sendall(text[sent:])
            client.shutdown(socket.SHUT_WR)
            assert client.recv(1000)[:12] in (b"", b'{"ok":false,')
    assert ipc.request(socket_path, {"command": "list"}) == {"open": []}
    wait_until(lambda: len(os.listdir("/proc/self/fd")) <= before, "descriptors to be closed")


def test_sigterm_stops_console_server(socket_path, start_vnc_server, connect_browser, tmp_path):
    command = [sys.executable, "-m", "consoles", str(socket_path)]
    environ = {**os.environ, "PANEL_DATA_DIR": str(tmp_path)}
    process = subprocess.Popen(command, env=environ, stderr=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2])
    wait_until(socket_path.exists, "the process")
    browser = sign_in(connect_browser())
    second = subprocess.run(command, env=environ, capture_output=True, text=True, cwd=Path(__file__).parents[2])
    assert second.returncode == 1
    assert f"A console process listens on {socket_path} already." in second.stderr
    process.send_signal(signal.SIGTERM)
    assert browser.wait_until_closed() == (1001, "The panel is being restarted. Open the console again in a moment.")
    _, log = process.communicate(timeout=20)
    assert process.returncode == 0, log
    assert "console_ended" in log
    assert not socket_path.exists()


def test_stale_socket_is_replaced(socket_path):
    with socket.socket(socket.AF_UNIX) as stale_socket:
        stale_socket.bind(str(socket_path))
    console_server = ConsoleServer(socket_path)
    console_server.start()
    assert ipc.request(socket_path, {"command": "list"}) == {"open": []}
    console_server.stop(0.1)


def test_stop_does_not_wait_for_unresponsive_browser(console_server, connect_browser, socket_path):
    browser = sign_in(connect_browser())
    console_server.stop(0.3)
    assert not console_server.event_loop.is_alive()
    assert not socket_path.exists()
    assert browser.next_frame()[0] == console_client.CLOSE


@pytest.fixture(autouse=True)
def idempotent_stop(monkeypatch):
    """Let a test stop the console server that its fixture stops again."""
    stop = ConsoleServer.stop

    def stop_if_running(self, *args):
        if self.listener.fileno() >= 0:
            stop(self, *args)

    monkeypatch.setattr(ConsoleServer, "stop", stop_if_running)
