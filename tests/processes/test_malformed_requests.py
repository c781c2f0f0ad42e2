"""Malformed bytes on the real server: it answers with an error or closes the connection, and continues to serve
others."""

import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from panel.app import MAX_BODY_BYTES
from tests.support.waiting import wait_until

pytestmark = pytest.mark.processes

ANSWER_TIMEOUT_SECONDS = 5
"""Below each of the server's own timeouts."""

POST_HEAD = b"POST /api/ssh-keys HTTP/1.1\r\nHost: x\r\n"
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
    "two kinds of length": POST_HEAD + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two lengths": POST_HEAD + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
    "a negative length": POST_HEAD + b"Content-Length: -1\r\n\r\n",
    "a length that is no number": POST_HEAD + b"Content-Length: abc\r\n\r\n",
    "a coding that is none": POST_HEAD + b"Transfer-Encoding: nosuch\r\n\r\n",
}
UNUSUAL_REQUESTS = {
    "NUL in the path": (b"GET /api/instance/%00 HTTP/1.1\r\nHost: x\r\n\r\n", 404),
    "an address instead of a path": (b"GET http://evil.example/api/connect HTTP/1.1\r\nHost: x\r\n\r\n", 401),
    "a host that is none": (b"GET /api/connect HTTP/1.1\r\nHost: a b/\\\xff\r\n\r\n", 400),
    "a whole path from somewhere else": (b"GET /healthz HTTP/1.1\r\nHost: x\r\nSCRIPT_NAME: /evil\r\n\r\n", 200),
    "a header with bytes above 127": (b"GET /api/connect HTTP/1.1\r\nHost: x\r\nAuthorization: \xff\xe9\r\n\r\n", 401),
}


@pytest.fixture
def web_installation(installation):
    installation.start("web")
    wait_until(installation.is_answering, "the web server")
    yield installation
    wait_until(installation.is_answering, "the web server after the test")
    assert "Traceback" not in installation.read_log("web")
    assert "WORKER TIMEOUT" not in installation.read_log("web")


def connect_socket(installation):
    host, _, port = installation.bind.partition(":")
    return socket.create_connection((host, int(port)), timeout=60)


def send_bytes(web_installation, data, *further_data):
    """Return what the server sends until it closes the connection."""
    with connect_socket(web_installation) as connection:
        received = b""
        with suppress(ConnectionError):  # the server may close before all is sent
            for part in (data, *further_data):
                connection.sendall(part)
            connection.shutdown(socket.SHUT_WR)
            while part := connection.recv(65536):
                received += part
    return received


def parse_status(received):
    return int(received.split(b" ", 2)[1]) if received else None


def test_malformed_http_requests_are_refused(web_installation):
    for name, data in BROKEN_REQUESTS.items():
        received = send_bytes(web_installation, data)
        assert received == b"" or 400 <= parse_status(received) < 500 or parse_status(received) in (501, 505), (
            name,
            received[:300],
        )
    for name, (data, expected) in UNUSUAL_REQUESTS.items():
        received = send_bytes(web_installation, data)
        assert parse_status(received) == expected, (name, received[:500])
        assert b"evil" not in received
    process = web_installation.running[0]
    assert process.is_running()
    assert "request_refused" not in web_installation.read_log("web")  # malformed requests must not fill the log


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


@pytest.mark.parametrize("target", ["/api/v1/auth", "/api/v1/nosuch?a=b", "http://x/api/v1/auth"])
def test_malformed_requests_below_api_v1_are_refused_in_envelope(web_installation, target):
    """ENV-03, ERR-12: also when the server refuses the request before the application sees it."""
    for header, expected in REFUSED_HEADERS.items():
        received = send_bytes(
            web_installation, b"POST %s HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n" % (target.encode(), header)
        )
        head, _, body = received.partition(b"\r\n\r\n")
        assert parse_status(received) == expected, (header[:40], received[:300])
        assert b"x-api-envelope: v1" in head.lower()
        answer = json.loads(body)
        assert (answer.keys(), answer["success"]) == ({"success", "message"}, False)
    assert (
        parse_status(send_bytes(web_installation, b"GET %s?%s HTTP/1.1\r\n\r\n" % (target.encode(), b"a" * 5000)))
        == 414
    )


def test_refusals_are_json_for_api_and_html_for_pages(web_installation):
    """ENV-32, ERR-12"""
    for path, kind in (("/api/connect", b"application/json"), ("/version", b"application/json"), ("/", b"text/html")):
        received = send_bytes(
            web_installation, b"GET %s HTTP/1.1\r\nHost: x\r\nA: %s\r\n\r\n" % (path.encode(), b"a" * 9000)
        )
        assert parse_status(received) == 431
        assert b"content-type: " + kind in received.lower()
        assert b"x-api-envelope" not in received.lower()


@pytest.mark.parametrize("method", [b"FOO", b"get", b"GETS"])
def test_unknown_methods_are_refused_in_dialect_of_path(web_installation, method):
    """ERR-12"""
    for path, kind in ((b"/api/instances", b"application/json"), (b"/", b"text/html")):
        received = send_bytes(web_installation, b"%s %s HTTP/1.1\r\nHost: x\r\n\r\n" % (method, path))
        assert (parse_status(received), b"content-type: " + kind in received.lower()) == (501, True)
    assert parse_status(send_bytes(web_installation, b"PROPFIND /api/instances HTTP/1.1\r\nHost: x\r\n\r\n")) == 405


def test_chunked_request_bodies(web_installation, fresh_installation):
    head = POST_HEAD + b"Authorization: Bearer %s\r\nTransfer-Encoding: chunked\r\n" % fresh_installation[1].encode()
    closing_head = head + b"Connection: close\r\n\r\n"
    valid_body = b'9\r\n{"name": \r\n4\r\n"k"}\r\n0\r\n\r\n'
    received = send_bytes(web_installation, closing_head, valid_body)
    assert (parse_status(received), b"public_key" in received, b'"name"' in received) == (
        422,
        True,
        False,
    )  # the name was parsed
    assert parse_status(send_bytes(web_installation, closing_head, b"zz\r\n{}\r\n0\r\n\r\n")) == 400
    assert parse_status(send_bytes(web_installation, closing_head, b"5\r\n{}")) == 400  # ends too early
    chunk = b"10000\r\n" + b" " * 65536 + b"\r\n"
    assert parse_status(
        send_bytes(web_installation, closing_head, chunk * (MAX_BODY_BYTES // 65536 + 1), b"0\r\n\r\n")
    ) in (413, None)


def test_wrong_content_length_is_refused(web_installation, fresh_installation):
    head = POST_HEAD + b"Connection: close\r\nAuthorization: Bearer %s\r\n" % fresh_installation[1].encode()
    assert parse_status(send_bytes(web_installation, head + b"Content-Length: 500\r\n\r\n{}")) == 400
    assert parse_status(send_bytes(web_installation, head + b"Content-Length: 1\r\n\r\n{}")) == 400  # truncated JSON
    assert parse_status(send_bytes(web_installation, head + b"Content-Length: 999999999999\r\n\r\n{}")) == 413


@pytest.mark.parametrize(
    "incomplete_request",
    [
        b"GET /healthz HTTP/1.1\r\nHost: x\r\nA: ",
        b"POST /sign-in HTTP/1.1\r\nHost: x\r\nSec-Fetch-Site: same-origin\r\nContent-Length: 100\r\n"
        b"Content-Type: application/x-www-form-urlencoded\r\n\r\nemail=",
    ],
    ids=["header", "body"],
)
def test_incomplete_requests_do_not_delay_others(web_installation, incomplete_request):
    """More incomplete requests than threads, and others are answered meanwhile."""
    connections = [connect_socket(web_installation) for _ in range(30)]
    for connection in connections:
        connection.sendall(incomplete_request)
    started_at = time.monotonic()
    assert all(web_installation.is_answering() for _ in range(10))
    assert time.monotonic() - started_at < ANSWER_TIMEOUT_SECONDS
    for connection in connections:
        connection.close()


def test_malformed_requests_do_not_affect_parallel_requests(web_installation, fresh_installation):
    """Malformed and valid requests in parallel."""
    malformed_requests = list(BROKEN_REQUESTS.values())

    def send_request(number):
        if number % 2:
            return web_installation.call("GET", "/api/connect", token=fresh_installation[1])[0]
        send_bytes(web_installation, malformed_requests[number % len(malformed_requests)])
        return None

    with ThreadPoolExecutor(8) as pool:
        assert {status for status in pool.map(send_request, range(120)) if status} == {200}
