"""What the real server does with bytes that are no request: it says so or hangs up, and goes on with the others."""

import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from panel.app import MAX_BODY_BYTES
from tests.processes.conftest import wait_until

pytestmark = pytest.mark.processes

ANSWER_TIMEOUT_SECONDS = 5
"""Below each of the server's own timeouts."""

POST = b"POST /api/ssh-keys HTTP/1.1\r\nHost: x\r\n"
BROKEN_REQUESTS = {
    "no request at all": b"GARBAGE\r\n\r\n",
    "the greeting of TLS": bytes.fromhex("16030100a5010000a10303") + b"\x00" * 200,
    "bytes that are no text in the path": b"GET /api/instance/\xff\xfe\x80 HTTP/1.1\r\nHost: x\r\n\r\n",
    "NULs": b"\x00" * 5000 + b"\r\n\r\n",
    "a version that is none": b"GET /healthz HTTP/9.9\r\nHost: x\r\n\r\n",
    "a method that is none": b"GE T /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
    "too long a line": b"GET /" + b"a" * 10_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    "too long a header": b"GET /api/connect HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + b"a" * 65536 + b"\r\n\r\n",
    "too many headers": b"GET /api/connect HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * 500 + b"\r\n",
    "NUL in a header": b"GET /api/connect HTTP/1.1\r\nHost: x\r\nA: b\x00c\r\n\r\n",
    "a header without a name": b"GET /api/connect HTTP/1.1\r\nHost: x\r\n: b\r\n\r\n",
    "a header over two lines": b"GET /api/connect HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n",
    "two kinds of length": POST + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two lengths": POST + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
    "a negative length": POST + b"Content-Length: -1\r\n\r\n",
    "a length that is no number": POST + b"Content-Length: abc\r\n\r\n",
    "a coding that is none": POST + b"Transfer-Encoding: nosuch\r\n\r\n",
}
ODD_REQUESTS = {
    "NUL in the path": (b"GET /api/instance/%00 HTTP/1.1\r\nHost: x\r\n\r\n", 404),
    "an address instead of a path": (b"GET http://evil.example/api/connect HTTP/1.1\r\nHost: x\r\n\r\n", 401),
    "a host that is none": (b"GET /api/connect HTTP/1.1\r\nHost: a b/\\\xff\r\n\r\n", 400),
    "a whole path from somewhere else": (b"GET /healthz HTTP/1.1\r\nHost: x\r\nSCRIPT_NAME: /evil\r\n\r\n", 200),
    "a header with bytes above 127": (b"GET /api/connect HTTP/1.1\r\nHost: x\r\nAuthorization: \xff\xe9\r\n\r\n", 401),
}


@pytest.fixture
def web(installation):
    installation.start("web")
    wait_until(installation.answers, "the web server")
    yield installation
    wait_until(installation.answers, "the web server that goes on")
    assert "Traceback" not in installation.log("web")
    assert "WORKER TIMEOUT" not in installation.log("web")


def connect_socket(web):
    host, _, port = web.bind.partition(":")
    return socket.create_connection((host, int(port)), timeout=60)


def send_bytes(web, sent, *more):
    """What the server answers until it hangs up or goes on to wait."""
    with connect_socket(web) as line:
        heard = b""
        with suppress(ConnectionError):  # it may hang up while we are still speaking
            for part in (sent, *more):
                line.sendall(part)
            line.shutdown(socket.SHUT_WR)
            while part := line.recv(65536):
                heard += part
    return heard


def status_of(heard):
    return int(heard.split(b" ", 2)[1]) if heard else None


def test_malformed_http_requests_are_refused(web):
    for what, sent in BROKEN_REQUESTS.items():
        heard = send_bytes(web, sent)
        assert heard == b"" or 400 <= status_of(heard) < 500 or status_of(heard) in (501, 505), (what, heard[:300])
    for what, (sent, expected) in ODD_REQUESTS.items():
        heard = send_bytes(web, sent)
        assert status_of(heard) == expected, (what, heard[:500])
        assert b"evil" not in heard
    process = web.running[0]
    assert process.is_running()
    assert "request_refused" not in web.log("web")  # nobody fills the logs with what is no request


REFUSED_HEADERS = {
    b"A: " + b"a" * 9000: 431,
    b"Authorization: Bearer " + b"a" * 60_000: 431,
    b"\r\n".join([b"A: b"] * 150): 431,
    b"no header": 400,
    b"Content-Length: 1\r\nTransfer-Encoding: chunked": 400,
    b"Content-Length: -1": 400,
    b"Transfer-Encoding: nosuch": 501,
    b"Expect: miracles": 417,
}


@pytest.mark.parametrize("start", ["/api/v1/auth", "/api/v1/nosuch?a=b", "http://x/api/v1/auth"])
def test_under_api_v1_also_what_cannot_be_read_is_refused_in_an_envelope(web, start):
    """ENV-03, ERR-12: by a server that never asked the application."""
    for header, expected in REFUSED_HEADERS.items():
        heard = send_bytes(web, b"POST %s HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n" % (start.encode(), header))
        head, _, body = heard.partition(b"\r\n\r\n")
        assert status_of(heard) == expected, (header[:40], heard[:300])
        assert b"x-api-envelope: v1" in head.lower()
        found = json.loads(body)
        assert (found.keys(), found["success"]) == ({"success", "message"}, False)
    assert status_of(send_bytes(web, b"GET %s?%s HTTP/1.1\r\n\r\n" % (start.encode(), b"a" * 5000))) == 414


def test_programs_of_customers_get_json_and_browsers_a_page(web):
    """ENV-32, ERR-12"""
    for path, kind in (("/api/connect", b"application/json"), ("/version", b"application/json"), ("/", b"text/html")):
        heard = send_bytes(web, b"GET %s HTTP/1.1\r\nHost: x\r\nA: %s\r\n\r\n" % (path.encode(), b"a" * 9000))
        assert status_of(heard) == 431
        assert b"content-type: " + kind in heard.lower()
        assert b"x-api-envelope" not in heard.lower()


@pytest.mark.parametrize("method", [b"FOO", b"get", b"GETS"])
def test_unknown_methods_are_refused_in_the_dialect_of_the_path(web, method):
    """ERR-12"""
    for path, kind in ((b"/api/instances", b"application/json"), (b"/", b"text/html")):
        heard = send_bytes(web, b"%s %s HTTP/1.1\r\nHost: x\r\n\r\n" % (method, path))
        assert (status_of(heard), b"content-type: " + kind in heard.lower()) == (501, True)
    assert status_of(send_bytes(web, b"PROPFIND /api/instances HTTP/1.1\r\nHost: x\r\n\r\n")) == 405


def test_request_bodies_in_pieces(web, fresh_installation):
    start = POST + b"Authorization: Bearer %s\r\nTransfer-Encoding: chunked\r\n" % fresh_installation[1].encode()
    closing = start + b"Connection: close\r\n\r\n"
    good = b'9\r\n{"name": \r\n4\r\n"k"}\r\n0\r\n\r\n'
    heard = send_bytes(web, closing, good)
    assert (status_of(heard), b"public_key" in heard, b'"name"' in heard) == (422, True, False)  # the name arrived
    assert status_of(send_bytes(web, closing, b"zz\r\n{}\r\n0\r\n\r\n")) == 400
    assert status_of(send_bytes(web, closing, b"5\r\n{}")) == 400  # ends too early
    piece = b"10000\r\n" + b" " * 65536 + b"\r\n"
    assert status_of(send_bytes(web, closing, piece * (MAX_BODY_BYTES // 65536 + 1), b"0\r\n\r\n")) in (413, None)


def test_lengths_that_are_not_true(web, fresh_installation):
    start = POST + b"Connection: close\r\nAuthorization: Bearer %s\r\n" % fresh_installation[1].encode()
    assert status_of(send_bytes(web, start + b"Content-Length: 500\r\n\r\n{}")) == 400
    assert status_of(send_bytes(web, start + b"Content-Length: 1\r\n\r\n{}")) == 400  # half an object
    assert status_of(send_bytes(web, start + b"Content-Length: 999999999999\r\n\r\n{}")) == 413


@pytest.mark.parametrize(
    "begun",
    [
        b"GET /healthz HTTP/1.1\r\nHost: x\r\nA: ",
        b"POST /sign-in HTTP/1.1\r\nHost: x\r\nSec-Fetch-Site: same-origin\r\nContent-Length: 100\r\n"
        b"Content-Type: application/x-www-form-urlencoded\r\n\r\nemail=",
    ],
    ids=["header", "body"],
)
def test_those_who_never_finish_hold_nobody_up(web, begun):
    """Finding F1: more of them than there are threads, and others are answered while they wait."""
    lines = [connect_socket(web) for _ in range(30)]
    for line in lines:
        line.sendall(begun)
    began = time.monotonic()
    assert all(web.answers() for _ in range(10))
    assert time.monotonic() - began < ANSWER_TIMEOUT_SECONDS
    for line in lines:
        line.close()


def test_many_pipelined_connections(web, fresh_installation):
    """Broken and right requests side by side."""
    broken = list(BROKEN_REQUESTS.values())

    def one(number):
        if number % 2:
            return web.call("GET", "/api/connect", token=fresh_installation[1])[0]
        send_bytes(web, broken[number % len(broken)])
        return None

    with ThreadPoolExecutor(8) as pool:
        assert {found for found in pool.map(one, range(120)) if found} == {200}
