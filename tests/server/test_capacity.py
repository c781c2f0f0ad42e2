"""Slow and long connections cost no thread: others are answered as if they were not there."""

import contextlib
import time

import pytest

from panel.server.connection_limits import WRITE_STALL_SECONDS
from tests.processes.conftest import wait_until
from tests.server.app import THREADS

pytestmark = pytest.mark.processes

STREAMS = 2000


def test_streams_cost_no_thread(start_server):
    """Issue 12.1: two thousand event streams in one process, beside which requests are answered; a stop ends them."""
    server = start_server()
    (worker,) = server.workers()
    for _ in range(3 * THREADS):
        server.get("/seen")
    threads, memory = worker.num_threads(), worker.memory_full_info().uss
    streams = [server.connect() for _ in range(STREAMS)]
    for stream in streams:
        stream.send(b"GET /events/all HTTP/1.1\r\nHost: x\r\n\r\n")
    for stream in streams:
        assert b"data: begun" in stream.read_until(b"\n\n\r\n")
    assert server.get("/seen")[0] == 200
    assert worker.num_threads() <= max(threads, THREADS + 4)
    assert (worker.memory_full_info().uss - memory) / STREAMS < 64 * 1024
    for stream in streams[: STREAMS // 2]:
        stream.socket.close()
    wait_until(
        lambda: len(worker.net_connections()) < STREAMS // 2 + 10, "the streams of clients that left to be closed"
    )
    began = time.monotonic()
    assert server.stop() == 0
    assert time.monotonic() - began < 10
    assert all(b"data: ended" in stream.read_rest() for stream in streams[STREAMS // 2 :])


def test_those_who_do_not_read_their_answer_hold_no_thread(server):
    """They are dropped after half a minute, for which the others need not wait."""
    clients = [server.connect() for _ in range(3 * THREADS)]
    for client in clients:
        client.send(b"GET /large/8000000 HTTP/1.1\r\nHost: x\r\n\r\n")
    began = time.monotonic()
    assert server.get("/seen")[0] == 200
    assert time.monotonic() - began < WRITE_STALL_SECONDS / 2
    assert len(clients[0].read_answer()[2]) == 8_000_000
    for client in clients:
        client.socket.close()


def test_bodies_that_arrive_slowly_hold_no_thread(server):
    clients = [server.connect() for _ in range(3 * THREADS)]
    for client in clients:
        client.send(b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 300000\r\n\r\n" + b"x" * 299_999)
    assert server.get("/seen")[0] == 200
    for client in clients:
        client.send(b"x")
        assert client.read_answer()[0] == 200
        client.socket.close()


# --- limits


def test_a_head_has_a_deadline(start_server):
    """Issue 12.1: however steadily it arrives. A body has none while it arrives."""
    server = start_server(HEAD_SECONDS="2")
    with server.connect() as head, server.connect() as body, server.connect() as silent:
        head.send(b"GET /api/x HTTP/1.1\r\nX-Slow: ")
        body.send(b"POST /api/x HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n")
        began = time.monotonic()
        for _ in range(8):
            time.sleep(0.6)
            with contextlib.suppress(OSError):
                head.send(b"a")
            body.send(b"a")
        status, found, _ = head.read_answer()
        assert (status, b"application/json" in found) == (408, True)
        assert head.is_closed_within(10)
        assert silent.is_closed_within(1)
        assert time.monotonic() - began < 15
        body.send(b"a")
        assert body.read_answer()[0] == 200


def test_the_head_of_a_later_request_has_one_too(start_server):
    server = start_server(HEAD_SECONDS="1")
    with server.connect() as connection:
        connection.send(b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n")
        assert connection.read_answer()[0] == 200
        time.sleep(2.5)  # unused, which is no request
        connection.send(b"GET /a HTTP/1.1\r\n")
        assert connection.read_answer()[0] == 408


def test_a_pause_inside_a_body_ends_it(server):
    with server.connect() as connection:
        connection.send(b"POST /api/x HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc")
        began = time.monotonic()
        assert connection.read_answer()[0] == 408
        assert 9 < time.monotonic() - began < 20


def test_an_address_may_have_so_many_incomplete_heads(start_server):
    """Issue 12.1: others are not counted, nor whose head is complete, nor trusted proxies (127.0.0.9 here)."""
    server = start_server(HEADS_PER_ADDRESS="5")
    some = [server.connect("127.0.0.2") for _ in range(5)]
    assert server.connect("127.0.0.2").is_closed_within(10)
    assert server.get("/a")[0] == 200
    some += [server.connect("127.0.0.9") for _ in range(20)]
    for connection in some:
        connection.send(b"GET /a HTTP/1.1\r\nHost: x\r\n")
    assert server.connect("127.0.0.2").is_closed_within(10)
    for connection in some:
        connection.send(b"\r\n")
        assert connection.read_answer()[0] == 200
    with server.connect("127.0.0.2") as again:
        again.send(b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n")
        assert again.read_answer()[0] == 200
    for connection in some:
        connection.socket.close()
