"""What breaks around consoles: networks, nodes, the console process, the web. Who is left is told, and goes on."""

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
from tests.consoles.conftest import PASSWORD, wait_until
from tests.consoles.test_fd_passing import start_web, stop_process
from tests.consoles.vnc.conftest import NOISE_BYTES, echo, reset_connection, wait_for_close
from tests.support import console_client, network_namespace, vnc_server

ROOT = Path(__file__).parents[2]


# --- networks


@pytest.fixture
def run_in_namespace():
    """Runs a function in a network of its own."""
    if not network_namespace.is_available():
        pytest.skip("a network of its own needs root")

    def run(work):
        network_namespace.enter_namespace()
        return work()

    with ThreadPoolExecutor(1) as pool:
        yield lambda work: pool.submit(run, work).result(60)


def send_endlessly(connection):
    while True:
        connection.sendall(NOISE_BYTES)


@pytest.mark.parametrize("play", [wait_for_close, send_endlessly])
def test_a_browser_whose_packets_are_lost_is_dropped(pump_patience, request, run_in_namespace, play):
    """Before a still picture as before a stream, of which the kernel goes on to take a little."""
    pump_patience |= {"ping": 0.3, "silence": 1.5}

    def work():
        session = request.getfixturevalue("screen")(request.getfixturevalue("machine")(play))
        began = time.monotonic()
        network_namespace.drop_packets()
        session.wait_for("ended")
        assert session.word == "vanished"
        assert time.monotonic() - began < 10

    run_in_namespace(work)


@pytest.mark.parametrize("typing", [False, True])
def test_a_node_whose_packets_are_lost_is_told(request, run_in_namespace, monkeypatch, typing):
    """Whether somebody types or only looks."""
    monkeypatch.setattr("consoles.vnc.NODE_SILENCE_TIMEOUT_SECONDS", 3)

    def work():
        server = request.getfixturevalue("machine")(echo)
        session = request.getfixturevalue("screen")(server)
        network_namespace.drop_packets(server.port)
        if typing:
            session.viewer.send(b"hello?")
        assert session.viewer.ended() == (1011, "The connection to the instance was lost.")
        session.wait_for("ended")
        assert session.word == "lost"

    run_in_namespace(work)


def test_the_time_limits_of_the_web_s_sockets_do_not_count(screen, machine, monkeypatch):
    """`panel web` gives a client ten seconds for each step; a person before a screen may look at it for longer."""
    limit = (0).to_bytes(8, "little") + (50_000).to_bytes(8, "little")
    pair = console_client.socket_pair

    def limited(**options):
        mine, other = pair(**options)
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            other.setsockopt(socket.SOL_SOCKET, option, limit)
        return mine, other

    monkeypatch.setattr(console_client, "socket_pair", limited)
    session = screen(machine(echo))
    time.sleep(0.5)
    session.viewer.send(b"on")
    assert session.viewer.read(2) == b"on"


# --- nodes


def test_a_node_that_is_cut_off_in_the_middle_of_a_picture(screen, machine):
    """What was sent is framed to its end, so that the reason can be read."""

    def play(connection):
        connection.sendall(NOISE_BYTES * 3)
        reset_connection(connection)

    session = screen(machine(play))
    assert session.viewer.ended() == (1011, "The connection to the instance was lost.")
    session.wait_for("ended")
    assert session.word == "lost"


def test_a_stream_ends_with_a_word_when_the_process_stops(screen, machine, pump):
    session = screen(machine(send_endlessly))
    session.viewer.read(1 << 20)
    pump.stop(close_codes.RESTARTING, 5)
    assert session.viewer.ended() == (1001, "The panel is being restarted. Open the console again in a moment.")


# --- processes


@pytest.fixture
def machine_in_namespace():
    """A node that outlives the console process, and shows whether its viewer is there."""
    server = vnc_server.VncServer(echo)
    yield server
    server.close()


@contextmanager
def run_console_process(path, data_dir):
    environ = {**os.environ, "PANEL_DATA_DIR": str(data_dir)}
    process = subprocess.Popen([sys.executable, "-m", "consoles", str(path)], env=environ, cwd=ROOT)
    try:
        wait_until(lambda: is_answering(path), "the console process", 60)
        yield process
    finally:
        process.kill()
        process.wait()


def is_answering(path):
    try:
        return ipc.request(path, {"do": "list"}) is not None
    except OSError:
        return False


def open_screen(path, server):
    """As the web does it; the browser's end and the web's."""
    mine, other = console_client.socket_pair()
    target = {"host": server.host, "port": server.port, "password": PASSWORD, "node_password": "nodepass"}
    environ = {"werkzeug.socket": other, "HTTP_SEC_WEBSOCKET_KEY": console_client.WEBSOCKET_KEY}
    try:
        fd_passing.pass_socket(environ, path, {"kind": "screen", "id": "s1", "target": target})
    except Unavailable:
        other.sendall(b"the web's still")
        assert mine.recv(100) == b"the web's still"
        raise
    finally:
        other.close()
    viewer = console_client.ConsoleClient(mine)
    assert viewer.hear_answer() == 101
    assert viewer.sign_in(PASSWORD) is None
    viewer.send(b"hello")
    assert viewer.read(5) == b"hello"
    return viewer


@pytest.mark.processes
def test_a_killed_console_process_takes_its_consoles_along_and_is_replaced(machine_in_namespace, tmp_path):
    """Browsers and nodes see the end at once, the web says that there are no consoles, and the next process takes the
    place of the dead one's socket."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "consoles.sock"
        with run_console_process(path, tmp_path) as process:
            browser = open_screen(path, machine_in_namespace)
            process.send_signal(signal.SIGKILL)
            assert browser.ended()[0] is None
            wait_until(lambda: machine_in_namespace.connections[0].fileno() < 0, "the node's side to be closed")
            assert path.exists()
            with pytest.raises(Unavailable, match="Consoles are not available at the moment"):
                open_screen(path, machine_in_namespace)
        with run_console_process(path, tmp_path):
            open_screen(path, machine_in_namespace).close()


@pytest.mark.processes
def test_a_reload_of_the_web_does_not_touch_consoles(machine_in_namespace, tmp_path):
    """They work on while the new web opens others, and after its end too."""
    with tempfile.TemporaryDirectory() as directory, socket.create_server(("127.0.0.1", 0)) as listener:
        path = Path(directory) / "consoles.sock"
        environment = {**os.environ, "CONSOLES": str(path), "NODE": str(machine_in_namespace.port)}
        with run_console_process(path, tmp_path):
            web = start_web(listener, environment)
            browser = through(listener)
            before = worker_pids(web)
            web.send_signal(signal.SIGHUP)
            wait_until(lambda: worker_pids(web) and not worker_pids(web) & before, "another web process", 60)
            browser.send(b"still")
            assert browser.read(5) == b"still"
            through(listener).close()
            stop_process(web)
            browser.send(b"there")
            assert browser.read(5) == b"there"


def through(listener):
    browser = console_client.ConsoleClient(socket.create_connection(listener.getsockname(), 20), "binary")
    assert browser.request() == 101
    assert browser.sign_in(PASSWORD) is None
    return browser


def worker_pids(master):
    return {child.pid for child in psutil.Process(master.pid).children()}
