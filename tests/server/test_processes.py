"""The processes of the web server: they finish their requests, and are replaced when they die or on a reload."""

import signal
import socket
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from panel.cli.up import is_listening
from panel.server.server import open_listener
from tests.support.waiting import wait_until

pytestmark = pytest.mark.processes


def test_shutdown_finishes_running_requests(start_server):
    server = start_server()
    with server.connect() as idle, server.connect() as busy:
        busy.send(b"GET /sleep/2.0 HTTP/1.1\r\nHost: x\r\n\r\n")
        time.sleep(0.5)
        started_at = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        assert idle.read_until_closed() == b""
        status, head, _ = busy.read_answer()
        assert (status, b"connection: close" in head.lower()) == (200, True)
        assert server.process.wait(20) == 0
        assert time.monotonic() - started_at < 10


def test_shutdown_answers_requests_on_their_way(start_server):
    server = start_server()
    with server.connect() as connected, server.connect() as partial:
        partial.send(b"GET /a HTTP/1.1\r\n")
        time.sleep(0.3)
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        connected.send(b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n")
        partial.send(b"Host: x\r\n\r\n")
        for client in (connected, partial):
            status, head, _ = client.read_answer()
            assert (status, b"connection: close" in head.lower()) == (200, True)
        assert server.process.wait(20) == 0


def test_second_signal_ends_server_immediately(start_server):
    server = start_server()

    def has_ended_after_signal():
        """A signal is lost while an earlier one has not been handled, so it is sent again after a second."""
        server.process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            server.process.wait(1)
        return server.process.poll() is not None

    with server.connect() as busy:
        busy.send(b"GET /sleep/60.0 HTTP/1.1\r\nHost: x\r\n\r\n")
        time.sleep(0.5)
        started_at = time.monotonic()
        wait_until(has_ended_after_signal, "the end of the server")
        assert time.monotonic() - started_at < 30
        assert server.process.returncode == 0


def test_killed_process_is_replaced(start_server):
    server = start_server(PROCESSES="2")
    killed = server.list_workers()[0]
    killed.kill()
    wait_until(lambda: len(server.list_workers()) == 2 and killed not in server.list_workers(), "another process")
    assert server.get("/a")[0] == 200


def test_process_killed_before_it_serves_is_replaced(start_server):
    server = start_server(PROCESSES="2", START_SECONDS="2")
    before = set(server.list_workers())
    before.copy().pop().kill()
    replacement = wait_until(lambda: set(server.list_workers()) - before, "a new process").pop()
    replacement.kill()
    wait_until(lambda: replacement not in server.list_workers() and len(server.list_workers()) == 2, "another process")
    assert server.get("/a")[0] == 200


def test_reload_replaces_all_processes_without_dropping_requests(start_server):
    server = start_server(PROCESSES="2")
    before = server.list_workers()
    with ThreadPoolExecutor() as pool:
        slow = pool.submit(server.get, "/sleep/1.5")
        time.sleep(0.5)
        server.process.send_signal(signal.SIGHUP)
        wait_until(
            lambda: len(server.list_workers()) == 2 and not set(before) & set(server.list_workers()), "other processes"
        )
        assert slow.result()[0] == 200
    assert server.get("/a")[0] == 200


def test_processes_end_with_their_parent(start_server):
    server = start_server(PROCESSES="2")
    workers = server.list_workers()
    server.process.kill()
    server.process.wait()
    wait_until(lambda: not any(worker.is_running() for worker in workers), "the processes to end")


def test_listener_at_socket_path(tmp_path):
    """A proxy on the same machine may run as another user; a socket file of a dead server is replaced."""
    path = tmp_path / "web.sock"
    for _ in range(2):
        with open_listener(f"unix:{path}"):
            assert is_listening(str(path))
            assert path.stat().st_mode & 0o777 == 0o666


@pytest.mark.parametrize("bind", ["127.0.0.1:0", ":0", "[::1]:0"])
def test_listener_at_address(bind):
    with open_listener(bind) as listener:
        family = socket.AF_INET6 if "::1" in bind else socket.AF_INET
        assert listener.family == family
