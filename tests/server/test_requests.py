"""How the web server parses requests: hostile ones are refused, all others reach Flask as WSGI specifies."""

import http.client
import json
import random
import socket
import time
import urllib.error
import urllib.request

import pytest

from tests.server.app import BODY_MAX_BYTES

pytestmark = pytest.mark.processes

POST_HEAD = b"POST /api/x HTTP/1.1\r\nHost: x\r\n"
CHUNKED = POST_HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
ANSWER_TIMEOUT_SECONDS = 3
"""Far below the server's timeouts of ten seconds and more, and far above what a busy machine needs."""

AMBIGUOUS_REQUESTS = {
    "lines end in LF": b"POST /api/x HTTP/1.1\nHost: x\n\n",
    "the request line ends in LF": b"POST /api/x HTTP/1.1\nHost: x\r\n\r\n",
    "a header ends in LF": POST_HEAD + b"A: b\n\r\n",
    "the head ends in LF": POST_HEAD + b"\n",
    "CR in a header": POST_HEAD + b"A: b\rc\r\n\r\n",
    "NUL in a header": POST_HEAD + b"A: b\x00c\r\n\r\n",
    "a header over two lines": POST_HEAD + b"A: b\r\n c\r\n\r\n",
    "the first header is folded": b"POST /api/x HTTP/1.1\r\n Host: x\r\n\r\n",
    "a space before the colon": POST_HEAD + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    "length and chunks": POST_HEAD + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunks and length": POST_HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
    "two lengths": POST_HEAD + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
    "twice the same length": POST_HEAD + b"Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
    "a list of lengths": POST_HEAD + b"Content-Length: 3, 3\r\n\r\nabc",
    "a length with a sign": POST_HEAD + b"Content-Length: +3\r\n\r\nabc",
    "a negative length": POST_HEAD + b"Content-Length: -3\r\n\r\nabc",
    "a hexadecimal length": POST_HEAD + b"Content-Length: 0x3\r\n\r\nabc",
    "a length with an underscore": POST_HEAD + b"Content-Length: 1_0\r\n\r\n0123456789",
    "an empty length": POST_HEAD + b"Content-Length:\r\n\r\n",
    "two hosts": POST_HEAD + b"Host: y\r\n\r\n",
    "no host": b"POST /api/x HTTP/1.1\r\n\r\n",
    "an empty host": b"POST /api/x HTTP/1.1\r\nHost:\r\n\r\n",
    "a host with a space": b"POST /api/x HTTP/1.1\r\nHost: a b\r\n\r\n",
    "a host with a path": b"POST /api/x HTTP/1.1\r\nHost: x/api\r\n\r\n",
    "a host with a user": b"POST /api/x HTTP/1.1\r\nHost: a@x\r\n\r\n",
    "a list of hosts": b"POST /api/x HTTP/1.1\r\nHost: x, y\r\n\r\n",
    "a port that is no number": b"POST /api/x HTTP/1.1\r\nHost: x:http\r\n\r\n",
    "an address without brackets": b"POST /api/x HTTP/1.1\r\nHost: fd88::1\r\n\r\n",
    "a bad host in HTTP/1.0": b"POST /api/x HTTP/1.0\r\nHost: a b\r\n\r\n",
    "no version": b"GET /api/x\r\n\r\n",
    "chunks in HTTP/1.0": b"POST /api/x HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunked twice": POST_HEAD + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunked, identity": POST_HEAD + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "xchunked": POST_HEAD + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "VT before chunked": POST_HEAD + b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
    "a chunk extension with LF": CHUNKED + b"3;a\nabc\r\n0\r\n\r\n",
    "a chunk extension with CR": CHUNKED + b"3;a\rb\r\nabc\r\n0\r\n\r\n",
    "a chunk extension with a control character": CHUNKED + b"3;a\x01=b\r\nabc\r\n0\r\n\r\n",
    "its value with a control character": CHUNKED + b"3;a=b\x01\r\nabc\r\n0\r\n\r\n",
    "its quoted value with a control character": CHUNKED + b'3;a="b\x01"\r\nabc\r\n0\r\n\r\n',
    "its quoted value with CR": CHUNKED + b'3;a="b\rc"\r\nabc\r\n0\r\n\r\n',
    "a chunk size before LF": CHUNKED + b"3\nabc\r\n0\r\n\r\n",
    "a chunk size after a space": CHUNKED + b" 3\r\nabc\r\n0\r\n\r\n",
    "a chunk size with 0x": CHUNKED + b"0x3\r\nabc\r\n0\r\n\r\n",
    "a chunk size with a sign": CHUNKED + b"+3\r\nabc\r\n0\r\n\r\n",
    "a chunk size that overflows": CHUNKED + b"1" + b"0" * 20 + b"\r\nabc\r\n0\r\n\r\n",
    "a chunk that is longer than it says": CHUNKED + b"3\r\nabcd\r\n0\r\n\r\n",
    "a chunk that ends in LF": CHUNKED + b"3\r\nabc\n0\r\n\r\n",
    "the last chunk ends in LF": CHUNKED + b"0\n\n",
    "a length in the trailer": CHUNKED + b"3\r\nabc\r\n0\r\nContent-Length: 5\r\n\r\n",
    "a tunnel": b"CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n",
}
SMUGGLED_REQUEST = b"GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.mark.parametrize("name", AMBIGUOUS_REQUESTS)
def test_ambiguous_requests_are_refused(server, name):
    """ENV-03: with an answer, and the bytes behind it are not parsed as a request."""
    for parts in (
        [AMBIGUOUS_REQUESTS[name] + SMUGGLED_REQUEST],
        [bytes([byte]) for byte in AMBIGUOUS_REQUESTS[name]] + [SMUGGLED_REQUEST],
    ):
        with server.connect() as connection:
            try:
                connection.send(*parts)
            except ConnectionError:
                assert len(parts) > 1  # the server refused it before the last byte
            received = connection.read_until_closed()
        assert received.count(b"HTTP/1.1 ") == 1
        assert received.split(b" ", 2)[1] in (b"400", b"501")
        assert b'"success": false' in received or b"<html>" in received  # HTML when no path could be parsed
    assert "smuggled" not in server.get("/seen")[1]["seen"]


def test_mutated_requests_are_answered_or_refused(server):
    """One wrong byte in a chunked request never makes its body parsed as a request."""
    rng = random.Random(12)
    request = (
        CHUNKED + b'5;a="b";c\r\nhello\r\n' + b"%x\r\n" % len(SMUGGLED_REQUEST) + SMUGGLED_REQUEST + b"\r\n0\r\n\r\n"
    )
    body_start = len(CHUNKED) - 2
    for _ in range(400):
        position = rng.randrange(20, len(request))
        byte = bytes([rng.choice(b'\x00\x01\t\n\x0b\r \x7f\xff:;,="0a')])
        sent = request[:position] + byte + request[position + rng.randrange(2) :]
        with server.connect() as connection:
            connection.send(sent)
            connection.socket.shutdown(socket.SHUT_WR)
            received = connection.read_until_closed()
        statuses = [part.split(b" ", 1)[0] for part in received.split(b"HTTP/1.1 ")[1:]]
        assert set(statuses) <= {b"200", b"400", b"404", b"417", b"501"}, (sent, received)
        assert len(statuses) <= 2
        assert b"Traceback" not in received
        if position > body_start:
            assert b"/smuggled" not in received.split(b'"PATH_INFO"', 1)[-1][:30], sent
    assert server.get("/seen")[0] == 200


def test_well_formed_chunks_are_joined(server):
    """With extensions, in any packets; a trailer does not become a header."""
    body = b'5\r\nhello\r\n6;name=value;other="a b"\r\n world\r\n0\r\nX-Trailer: t\r\n\r\n'
    for parts in ([CHUNKED + body], [CHUNKED, body], [bytes([byte]) for byte in CHUNKED + body]):
        status, answer = server.call(*parts)
        assert (status, answer["body"]) == (200, "hello world")
        assert answer["environ"]["CONTENT_LENGTH"] == "11"
        assert not {"HTTP_TRANSFER_ENCODING", "HTTP_X_TRAILER"} & answer["environ"].keys()


# --- several requests on a connection


def test_pipelined_requests_are_answered_without_delay_in_order(server):
    """The second of two requests in one packet waited for the end of the connection."""
    started_at = time.monotonic()
    with server.connect() as connection:
        connection.send(b"".join(b"GET /%d HTTP/1.1\r\nHost: x\r\n\r\n" % number for number in range(50)))
        paths = [json.loads(connection.read_answer()[2])["environ"]["PATH_INFO"] for _ in range(50)]
        connection.send(POST_HEAD + b"Content-Length: 2\r\n\r\nhi" + b"GET /last HTTP/1.1\r\nHost: x\r\n\r\n")
        bodies = [json.loads(connection.read_answer()[2])["body"] for _ in range(2)]
    assert paths == [f"/{number}" for number in range(50)]
    assert bodies == ["hi", ""]
    assert time.monotonic() - started_at < ANSWER_TIMEOUT_SECONDS


def test_malformed_pipelined_request_is_refused_after_earlier_answers(server):
    with server.connect() as connection:
        connection.send(b"GET /sleep/0.3 HTTP/1.1\r\nHost: x\r\n\r\nGET /a HTTP/1.1\r\nHost: x\r\n\r\nbroken\r\n\r\n")
        answers = [connection.read_answer() for _ in range(3)]
        assert connection.read_until_closed() == b""
    assert [status for status, _, _ in answers] == [200, 200, 400]


def test_requests_after_refused_body_are_answered_without_delay(server):
    """Head and body as two packets, refused before the body was read, as http.client sends them."""
    started_at = time.monotonic()
    with server.connect() as connection:
        for number in range(40):
            connection.send(b"POST /refuse HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n")
            time.sleep(0.002 * (number % 3))
            connection.send(b"hello")
            assert connection.read_answer()[0] == 403
            connection.send(b"GET /next HTTP/1.1\r\nHost: x\r\n\r\n")
            assert connection.read_answer()[0] == 200
    assert time.monotonic() - started_at < 2 * ANSWER_TIMEOUT_SECONDS


def test_unknown_upgrade_header_is_ignored(server):
    """Java's HTTP client asks for HTTP/2 in its first request, also with a body."""
    upgrade = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"
    with server.connect() as connection:
        connection.send(POST_HEAD + upgrade + b"Content-Length: 2\r\n\r\nhi")
        assert json.loads(connection.read_answer()[2])["body"] == "hi"
        connection.send(b"GET /a HTTP/1.1\r\nHost: x\r\n" + upgrade + b"\r\nGET /b HTTP/1.1\r\nHost: x\r\n\r\n")
        paths = [json.loads(connection.read_answer()[2])["environ"]["PATH_INFO"] for _ in range(2)]
    assert paths == ["/a", "/b"]


# --- bodies


def test_client_that_sends_all_first_can_read_413(server):
    """urllib, which sends everything before it reads, saw a reset instead of the 413."""
    url = "http://{}:{}/api/x".format(*server.address)
    for body in (b"x" * (5 * BODY_MAX_BYTES), iter([b"x" * 65536] * 100)):
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(urllib.request.Request(url, body, {"Content-Type": "x/y"}), timeout=30)
        assert refused.value.code == 413
        refused.value.close()


def test_connection_is_reused_after_too_large_body(server):
    connection = http.client.HTTPConnection(*server.address, timeout=30)
    for _ in range(2):
        connection.request("POST", "/api/x", b"x" * (2 * BODY_MAX_BYTES))
        answer = connection.getresponse()
        assert (answer.status, bool(answer.read())) == (413, True)
        connection.request("GET", "/a")
        answer = connection.getresponse()
        assert (answer.status, bool(answer.read())) == (200, True)
    connection.close()


def test_expect_continue_is_answered_before_body(server):
    """curl sends Expect: 100-continue with large bodies."""
    expects = b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n"
    with server.connect() as connection:
        connection.send(POST_HEAD + expects % (BODY_MAX_BYTES + 1))
        assert connection.read_answer()[0] == 413
    with server.connect() as connection:
        connection.send(POST_HEAD + expects % 5)
        assert connection.read_until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue"
        connection.send(b"hello")
        assert json.loads(connection.read_answer()[2])["body"] == "hello"


def test_large_body_arrives_complete(server):
    body = random.Random(1).randbytes(BODY_MAX_BYTES)
    head = POST_HEAD + b"Content-Length: %d\r\n\r\n" % len(body)
    assert server.call(head, body)[1]["body"].encode("latin-1") == body


def test_truncated_body_is_refused_with_400(server):
    for incomplete_request in (POST_HEAD + b"Content-Length: 9\r\n\r\nhi", CHUNKED + b"5\r\nhi"):
        with server.connect() as connection:
            connection.send(incomplete_request)
            connection.socket.shutdown(socket.SHUT_WR)
            assert b" 400 " in connection.read_until_closed()


# --- environment and answers


def test_wsgi_environment_of_request(server):
    environ = server.call(
        b"POST /a%2Fb%20%C3%BC/%ff?q=%41&r=1 HTTP/1.1\r\nHost: name:81\r\nContent-Type: text/plain\r\n"
        b"Content-Length: 0\r\nX-A: 1\r\nX-A: 2\r\nCookie: a=1\r\nCookie: b=2\r\nX_A: 3\r\nProxy: evil\r\n"
        b"X-Latin: \xe9\r\nSCRIPT_NAME: /s\r\n\r\n"
    )[1]["environ"]
    expected = {
        "REQUEST_METHOD": "POST",
        "SCRIPT_NAME": "",
        "PATH_INFO": "/a/b \xc3\xbc/\xff",
        "QUERY_STRING": "q=%41&r=1",
        "REQUEST_URI": "/a%2Fb%20%C3%BC/%ff?q=%41&r=1",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "REMOTE_ADDR": "127.0.0.1",
        "CONTENT_TYPE": "text/plain",
        "CONTENT_LENGTH": "0",
        "HTTP_HOST": "name:81",
        "HTTP_X_A": "1,2",
        "HTTP_COOKIE": "a=1; b=2",
        "HTTP_X_LATIN": "\xe9",
        "wsgi.url_scheme": "http",
    }
    assert environ.items() >= expected.items()
    assert not {"HTTP_PROXY", "HTTP_SCRIPT_NAME", "HTTP_CONTENT_LENGTH"} & environ.keys()


@pytest.mark.parametrize("host", ["x", "panel.example:8000", "127.0.0.1:80", "[fd88::1]:8000", "[::1]", "a_b-c.d.:"])
def test_host_header_may_be_name_or_address_with_port(server, host):
    assert server.call(f"GET /a HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())[1]["environ"]["HTTP_HOST"] == host


def test_absolute_request_targets_are_accepted(server):
    for target, path in ((b"http://y/a?b=c", "/a"), (b"http://y", "/"), (b"//a/b", "//a/b")):
        with server.connect() as connection:
            connection.send(b"GET %s HTTP/1.1\r\nHost: x\r\n\r\n" % target)
            status, _, body = connection.read_answer()
            assert status == 404 if path == "/" else json.loads(body)["environ"]["PATH_INFO"] == path


def test_http_1_0_client_gets_unchunked_answer_and_close(server):
    with server.connect() as connection:
        connection.send(b"GET /lines/3 HTTP/1.0\r\n\r\n")
        status, head, body = connection.read_answer()
        assert connection.read_until_closed() == b""
    assert (status, body) == (200, b"".join(b"%d /lines/3\n" % number for number in range(3)))
    assert b"chunked" not in head


def test_streamed_answers_are_chunked(server):
    connection = http.client.HTTPConnection(*server.address, timeout=30)
    connection.request("GET", "/lines/1000")
    answer = connection.getresponse()
    assert answer.getheader("Transfer-Encoding") == "chunked"
    assert answer.read().count(b"\n") == 1000
    connection.close()


def test_head_request_gets_only_headers(server):
    with server.connect() as connection:
        connection.send(b"HEAD /large/5000 HTTP/1.1\r\nHost: x\r\n\r\n")
        status, head, _ = connection.read_answer(head_only=True)
        assert (status, b"content-length: 5000" in head.lower()) == (200, True)
        connection.send(b"GET /large/3 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert connection.read_answer()[2] == b"xxx"
        assert connection.read_until_closed() == b""


def test_half_closed_connection_gets_its_answer(server):
    """The client shuts down its sending side before the answer, as `nc -N` does."""
    with server.connect() as connection:
        connection.send(b"GET /sleep/0.2 HTTP/1.1\r\nHost: x\r\n\r\n")
        connection.socket.shutdown(socket.SHUT_WR)
        assert connection.read_answer()[0] == 200
        assert connection.read_until_closed() == b""


def test_application_exception_is_500_in_dialect_of_path(server):
    status, body = server.get("/api/crash")
    assert (status, body["success"]) == (500, False)
    assert "test" not in body["message"]


def test_disconnected_clients_do_not_affect_others(server):
    for _ in range(30):
        with server.connect() as connection:
            connection.send(b"GET /sleep/0.05 HTTP/1.1\r\nHost: x\r\n\r\n")
    assert server.get("/seen")[0] == 200
