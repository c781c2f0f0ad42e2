"""Failures of networks, nodes, the console process and the web. The remaining side gets a close reason."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from consoles import close_codes, fd_passing, ipc
from panel.core.errors import Unavailable
from tests.consoles.console_session import PASSWORD
from tests.consoles.vnc.streams import RANDOM_MEBIBYTE, echo, reset_connection, wait_for_close
from tests.consoles.web_process import start_web, stop_process
from tests.support import console_client, network_namespace, vnc_server
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[2]


# --- networks


@pytest.fixture
def run_in_namespace():
    """Return a function that runs a function in its own network namespace."""
    if not network_namespace.is_available():
        pytest.skip("a network namespace requires root")

    def run(function):
        network_namespace.enter_namespace()
        return function()

    with ThreadPoolExecutor(1) as pool:
        yield lambda function: pool.submit(run, function).result(60)


def send_continuously(connection):
    while True:
        connection.sendall(RANDOM_MEBIBYTE)


@pytest.mark.parametrize("play", [wait_for_close, send_continuously])
def test_browser_with_packet_loss_is_disconnected(event_loop_options, request, run_in_namespace, play):
    """With a still picture, and with continuous output, of which the kernel still accepts some."""
    event_loop_options |= {"ping_interval_seconds": 0.3, "silence_timeout_seconds": 1.5}

    def run_console():
        session = request.getfixturevalue("open_vnc_console")(request.getfixturevalue("start_vnc_server")(play))
        started_at = time.monotonic()
        network_namespace.drop_packets()
        session.wait_for_event("ended")
        assert session.stream.close_reason.name == "vanished"
        assert time.monotonic() - started_at < 10

    run_in_namespace(run_console)


@pytest.mark.parametrize("typing", [False, True])
def test_packet_loss_to_node_closes_console(request, run_in_namespace, monkeypatch, typing):
    """With and without input from the browser."""
    monkeypatch.setattr("consoles.vnc.NODE_SILENCE_TIMEOUT_SECONDS", 3)

    def run_console():
        server = request.getfixturevalue("start_vnc_server")(echo)
        session = request.getfixturevalue("open_vnc_console")(server)
        network_namespace.drop_packets(server.port)
        if typing:
            session.viewer.send(b"hello?")
        assert session.viewer.wait_until_closed() == (1011, "The connection to the instance was lost.")
        session.wait_for_event("ended")
        assert session.stream.close_reason.name == "lost"

    run_in_namespace(run_console)


def test_console_ignores_web_socket_timeouts(open_vnc_console, start_vnc_server, monkeypatch):
    """`panel web` sets socket timeouts of ten seconds, but a user can watch a console for longer without input."""
    timeout = (0).to_bytes(8, "little") + (50_000).to_bytes(8, "little")
    socket_pair = console_client.socket_pair

    def create_pair_with_timeouts(**options):
        client_socket, server_socket = socket_pair(**options)
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            server_socket.setsockopt(socket.SOL_SOCKET, option, timeout)
        return client_socket, server_socket

    monkeypatch.setattr(console_client, "socket_pair", create_pair_with_timeouts)
    session = open_vnc_console(start_vnc_server(echo))
    time.sleep(0.5)
    session.viewer.send(b"on")
    assert session.viewer.read(2) == b"on"


# --- nodes


def test_node_reset_during_output_sends_close_reason(open_vnc_console, start_vnc_server):
    """The frame that was started is completed, so that the browser can read the close reason."""

    def play(connection):
        connection.sendall(RANDOM_MEBIBYTE * 3)
        reset_connection(connection)

    session = open_vnc_console(start_vnc_server(play))
    assert session.viewer.wait_until_closed() == (1011, "The connection to the instance was lost.")
    session.wait_for_event("ended")
    assert session.stream.close_reason.name == "lost"


def test_event_loop_stop_sends_close_reason(open_vnc_console, start_vnc_server, event_loop):
    session = open_vnc_console(start_vnc_server(send_continuously))
    session.viewer.read(1 << 20)
    event_loop.stop(close_codes.RESTARTING, 5)
    assert session.viewer.wait_until_closed() == (
        1001,
        "The panel is being restarted. Open the console again in a moment.",
    )


# --- processes


@pytest.fixture
def echo_vnc_server():
    """A VNC server that outlives the console process and records its connections."""
    server = vnc_server.VncServer(echo)
    yield server
    server.close()


@contextmanager
def run_console_process(path, data_dir):
    environ = {**os.environ, "PANEL_DATA_DIR": str(data_dir)}
    process = subprocess.Popen([sys.executable, "-m", "consoles", str(path)], env=environ, cwd=ROOT)
    try:
        wait_until(lambda: is_answering(path), "the console process")
        yield process
    finally:
        process.kill()
        process.wait()


def is_answering(path):
    try:
        return ipc.request(path, {"command": "list"}) is not None
    except OSError:
        return False


def open_console_over_ipc(path, server):
    """Pass a socket to the console process as the web does, and sign in at its other end."""
    client_socket, server_socket = console_client.socket_pair()
    target = {"host": server.host, "port": server.port, "password": PASSWORD, "node_password": "nodepass"}
    environ = {"werkzeug.socket": server_socket, "HTTP_SEC_WEBSOCKET_KEY": console_client.WEBSOCKET_KEY}
    try:
        fd_passing.pass_socket(environ, path, {"kind": "screen", "id": "s1", "target": target})
    except Unavailable:
        server_socket.sendall(b"the web's still")
        assert client_socket.recv(100) == b"the web's still"
        raise
    finally:
        server_socket.close()
    viewer = console_client.ConsoleClient(client_socket)
    assert viewer.read_response() == 101
    assert viewer.sign_in(PASSWORD) is None
    viewer.send(b"hello")
    assert viewer.read(5) == b"hello"
    return viewer


@pytest.mark.processes
def test_killed_console_process_closes_consoles_and_is_replaced(echo_vnc_server, tmp_path):
    """Connections to browsers and nodes close at once, the web answers that consoles are unavailable, and the next
    process replaces the socket of the killed one."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "consoles.sock"
        with run_console_process(path, tmp_path) as process:
            browser = open_console_over_ipc(path, echo_vnc_server)
            process.send_signal(signal.SIGKILL)
            assert browser.wait_until_closed()[0] is None
            wait_until(lambda: echo_vnc_server.connections[0].fileno() < 0, "the node's side to be closed")
            assert path.exists()
            with pytest.raises(Unavailable, match="Consoles are not available at the moment"):
                open_console_over_ipc(path, echo_vnc_server)
        with run_console_process(path, tmp_path):
            open_console_over_ipc(path, echo_vnc_server).close()


@pytest.mark.processes
def test_web_reload_keeps_consoles_open(echo_vnc_server, tmp_path):
    """Open consoles keep working while the new web opens others, and after the web has stopped."""
    with tempfile.TemporaryDirectory() as directory, socket.create_server(("127.0.0.1", 0)) as listener:
        path = Path(directory) / "consoles.sock"
        environment = {**os.environ, "CONSOLES": str(path), "NODE": str(echo_vnc_server.port)}
        with run_console_process(path, tmp_path):
            web = start_web(listener, environment)
            browser = connect_through_web(listener)
            before = list_worker_pids(web)
            web.send_signal(signal.SIGHUP)
            wait_until(lambda: list_worker_pids(web) and not list_worker_pids(web) & before, "another web process")
            browser.send(b"still")
            assert browser.read(5) == b"still"
            connect_through_web(listener).close()
            stop_process(web)
            browser.send(b"there")
            assert browser.read(5) == b"there"


def connect_through_web(listener):
    browser = console_client.ConsoleClient(socket.create_connection(listener.getsockname(), 20), "binary")
    assert browser.request() == 101
    assert browser.sign_in(PASSWORD) is None
    return browser


def list_worker_pids(master):
    return {child.pid for child in psutil.Process(master.pid).children()}
