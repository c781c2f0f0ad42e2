"""Slow and long connections hold no thread, so that other requests are answered without delay."""

import contextlib
import time

import pytest

from panel.server.connection_limits import WRITE_STALL_SECONDS
from tests.server.app import THREADS
from tests.support.waiting import wait_until

pytestmark = pytest.mark.processes

STREAM_COUNT = 2000


def test_event_streams_hold_no_thread(start_server):
    """One process serves two thousand event streams and other requests; a stop ends the streams."""
    server = start_server()
    (worker,) = server.list_workers()
    for _ in range(3 * THREADS):
        server.get("/seen")
    threads, memory = worker.num_threads(), worker.memory_full_info().uss
    streams = [server.connect() for _ in range(STREAM_COUNT)]
    for stream in streams:
        stream.send(b"GET /events/all HTTP/1.1\r\nHost: x\r\n\r\n")
    for stream in streams:
        assert b"data: begun" in stream.read_until(b"\n\n\r\n")
    assert server.get("/seen")[0] == 200
    assert worker.num_threads() <= max(threads, THREADS + 4)
    assert (worker.memory_full_info().uss - memory) / STREAM_COUNT < 64 * 1024
    for stream in streams[: STREAM_COUNT // 2]:
        stream.socket.close()
    wait_until(
        lambda: len(worker.net_connections()) < STREAM_COUNT // 2 + 10, "the streams of clients that left to be closed"
    )
    started_at = time.monotonic()
    assert server.stop() == 0
    assert time.monotonic() - started_at < 10
    assert all(b"data: ended" in stream.read_until_closed() for stream in streams[STREAM_COUNT // 2 :])


def test_clients_that_do_not_read_hold_no_thread(server):
    """Their connections are closed after half a minute; other requests do not wait for that."""
    clients = [server.connect() for _ in range(3 * THREADS)]
    for client in clients:
        client.send(b"GET /large/8000000 HTTP/1.1\r\nHost: x\r\n\r\n")
    started_at = time.monotonic()
    assert server.get("/seen")[0] == 200
    assert time.monotonic() - started_at < WRITE_STALL_SECONDS / 2
    assert len(clients[0].read_answer()[2]) == 8_000_000
    for client in clients:
        client.socket.close()


def test_slow_request_bodies_hold_no_thread(server):
    clients = [server.connect() for _ in range(3 * THREADS)]
    for client in clients:
        client.send(b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 300000\r\n\r\n" + b"x" * 299_999)
    assert server.get("/seen")[0] == 200
    for client in clients:
        client.send(b"x")
        assert client.read_answer()[0] == 200
        client.socket.close()


# --- limits


def test_request_head_has_deadline(start_server):
    """Also when bytes arrive steadily. A body has no deadline while it arrives."""
    server = start_server(HEAD_SECONDS="2")
    with server.connect() as head, server.connect() as body, server.connect() as silent:
        head.send(b"GET /api/x HTTP/1.1\r\nX-Slow: ")
        body.send(b"POST /api/x HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n")
        started_at = time.monotonic()
        for _ in range(8):
            time.sleep(0.6)
            with contextlib.suppress(OSError):
                head.send(b"a")
            body.send(b"a")
        status, answer_head, _ = head.read_answer()
        assert (status, b"application/json" in answer_head) == (408, True)
        assert head.is_closed_within(10)
        assert silent.is_closed_within(1)
        assert time.monotonic() - started_at < 15
        body.send(b"a")
        assert body.read_answer()[0] == 200


def test_request_head_on_reused_connection_has_deadline(start_server):
    server = start_server(HEAD_SECONDS="1")
    with server.connect() as connection:
        connection.send(b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n")
        assert connection.read_answer()[0] == 200
        time.sleep(2.5)  # an idle connection has no deadline
        connection.send(b"GET /a HTTP/1.1\r\n")
        assert connection.read_answer()[0] == 408


def test_pause_in_request_body_ends_connection(server):
    with server.connect() as connection:
        connection.send(b"POST /api/x HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc")
        started_at = time.monotonic()
        assert connection.read_answer()[0] == 408
        assert 9 < time.monotonic() - started_at < 20


def test_incomplete_heads_are_limited_per_address(start_server):
    """Complete heads and trusted proxies (127.0.0.9 here) do not count, and other addresses are not
    limited."""
    server = start_server(HEADS_PER_ADDRESS="5")
    connections = [server.connect("127.0.0.2") for _ in range(5)]
    assert server.connect("127.0.0.2").is_closed_within(10)
    assert server.get("/a")[0] == 200
    connections += [server.connect("127.0.0.9") for _ in range(20)]
    for connection in connections:
        connection.send(b"GET /a HTTP/1.1\r\nHost: x\r\n")
    assert server.connect("127.0.0.2").is_closed_within(10)
    for connection in connections:
        connection.send(b"\r\n")
        assert connection.read_answer()[0] == 200
    with server.connect("127.0.0.2") as next_connection:
        next_connection.send(b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n")
        assert next_connection.read_answer()[0] == 200
    for connection in connections:
        connection.socket.close()
