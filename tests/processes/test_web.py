"""`panel web` beside slow clients, and where it listens."""

import contextlib
import http.client
import socket
import statistics
import threading
import time

import pytest

from tests.processes.conftest import wait_until
from tests.server.conftest import Connection

pytestmark = pytest.mark.processes

SLOW_CONNECTIONS, OTHER_ADDRESSES = 1000, 100
BYTE_SECONDS = 3
LEAST_P99_SECONDS = 0.05
ATTEMPTS = 3
"""Other programs of the machine disturb a measurement; holding up others would spoil each of them."""
HEAD = b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow: "
BODY = b"POST /api/ssh-keys HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n"


@contextlib.contextmanager
def slow_clients(address):
    """Connections that send one byte every three seconds, half of them in a head and half in a body."""
    opened, end = [], threading.Event()
    for number in range(SLOW_CONNECTIONS):
        source = f"127.0.0.{2 + number % 100}" if number < OTHER_ADDRESSES else "127.0.0.1"
        opened.append(socket.create_connection(address, 30, source_address=(source, 0)))
        opened[-1].sendall(HEAD if number % 2 else BODY)

    def drip():
        while not end.wait(BYTE_SECONDS / 10):
            for connection in opened[drip.turn :: 10]:
                with contextlib.suppress(OSError):
                    connection.send(b"a")
            drip.turn = (drip.turn + 1) % 10

    drip.turn = 0
    thread = threading.Thread(target=drip)
    thread.start()
    yield opened
    end.set()
    thread.join()
    for connection in opened:
        connection.close()


def p99(address, path, token, seconds):
    """99 of 100 answers come within so many seconds, asked one after the other on a kept connection."""
    request = f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n".encode()
    taken, until = [], time.monotonic() + seconds
    with Connection(socket.create_connection(address, 30)) as connection:
        while time.monotonic() < until:
            began = time.perf_counter()
            connection.send(request)
            assert connection.read_answer()[0] == 200
            taken.append(time.perf_counter() - began)
            time.sleep(0.03)  # below the rate limit of a token
    return statistics.quantiles(taken, n=100)[98]


def test_a_thousand_slow_clients_delay_nobody(installation, fresh_installation):
    """Issue 12.1, finding F1. Ten of them held all threads before."""
    installation.start("web")
    wait_until(installation.answers, "the web server")
    host, _, port = installation.bind.partition(":")
    address, paths = (host, int(port)), ("/healthz", "/api/instances")
    measure = lambda seconds: {path: p99(address, path, fresh_installation[1], seconds) for path in paths}  # noqa: E731
    measure(1)  # what is done once
    for _ in range(ATTEMPTS):
        idle = measure(3)
        with slow_clients(address) as opened:
            beside = measure(4)
            assert sum(is_open(connection) for connection in opened) == SLOW_CONNECTIONS
        if all(beside[path] <= max(3 * idle[path], LEAST_P99_SECONDS) for path in paths):
            return
    pytest.fail(f"{idle=}, {beside=}")


def is_open(connection):
    connection.setblocking(False)
    try:
        return bool(connection.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return True
    except OSError:
        return False


def test_the_product_serves_at_a_path(installation):
    path = installation.data_dir / "web.sock"
    installation.env["PANEL_BIND"] = f"unix:{path}"
    installation.start("web")

    def answers():
        connection = http.client.HTTPConnection("panel")
        connection.sock = socket.socket(socket.AF_UNIX)
        try:
            connection.sock.connect(str(path))
            connection.request("GET", "/healthz")
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()

    wait_until(answers, "the web server")
