"""What the web server makes of requests: hostile ones are refused, and all others reach Flask as WSGI says."""

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
"""Far below the ten and more seconds of the timeouts, and far above what a busy machine needs."""

AMBIGUOUS = {
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
SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.mark.parametrize("what", AMBIGUOUS)
def test_what_can_be_read_in_two_ways_is_refused(server, what):
    """Issue 12.1, ENV-03: with an answer, and nothing behind it is taken for a request."""
    for parts in ([AMBIGUOUS[what] + SMUGGLED], [bytes([each]) for each in AMBIGUOUS[what]] + [SMUGGLED]):
        with server.connect() as connection:
            try:
                connection.send(*parts)
            except ConnectionError:
                assert len(parts) > 1  # it was refused before its end
            heard = connection.read_rest()
        assert heard.count(b"HTTP/1.1 ") == 1
        assert heard.split(b" ", 2)[1] in (b"400", b"501")
        assert b'"success": false' in heard or b"<html>" in heard  # where no path could be read
    assert "smuggled" not in server.get("/seen")[1]["seen"]


def test_mutated_requests_are_answered_or_refused(server):
    """Issue 12.1: whatever one wrong byte makes of a chunked request, its body's text is never taken for a request."""
    chance = random.Random(12)
    whole = CHUNKED + b'5;a="b";c\r\nhello\r\n' + b"%x\r\n" % len(SMUGGLED) + SMUGGLED + b"\r\n0\r\n\r\n"
    head = len(CHUNKED) - 2
    for _ in range(400):
        place = chance.randrange(20, len(whole))
        wrong = bytes([chance.choice(b'\x00\x01\t\n\x0b\r \x7f\xff:;,="0a')])
        sent = whole[:place] + wrong + whole[place + chance.randrange(2) :]
        with server.connect() as connection:
            connection.send(sent)
            connection.socket.shutdown(socket.SHUT_WR)
            heard = connection.read_rest()
        statuses = [part.split(b" ", 1)[0] for part in heard.split(b"HTTP/1.1 ")[1:]]
        assert set(statuses) <= {b"200", b"400", b"404", b"417", b"501"}, (sent, heard)
        assert len(statuses) <= 2
        assert b"Traceback" not in heard
        if place > head:
            assert b"/smuggled" not in heard.split(b'"PATH_INFO"', 1)[-1][:30], sent
    assert server.get("/seen")[0] == 200


def test_well_formed_chunks_are_put_together(server):
    """Issue 12.1, sandbox-clients rule 6: with extensions, in any packets; a trailer is no header."""
    body = b'5\r\nhello\r\n6;name=value;other="a b"\r\n world\r\n0\r\nX-Trailer: t\r\n\r\n'
    for parts in ([CHUNKED + body], [CHUNKED, body], [bytes([each]) for each in CHUNKED + body]):
        status, shown = server.call(*parts)
        assert (status, shown["body"]) == (200, "hello world")
        assert shown["environ"]["CONTENT_LENGTH"] == "11"
        assert not {"HTTP_TRANSFER_ENCODING", "HTTP_X_TRAILER"} & shown["environ"].keys()


# --- one after the other on a connection


def test_pipelined_requests_are_answered_at_once_and_in_order(server):
    """Finding A1: the second of two requests in one packet waited for the end of the connection."""
    began = time.monotonic()
    with server.connect() as connection:
        connection.send(b"".join(b"GET /%d HTTP/1.1\r\nHost: x\r\n\r\n" % number for number in range(50)))
        paths = [json.loads(connection.read_answer()[2])["environ"]["PATH_INFO"] for _ in range(50)]
        connection.send(POST_HEAD + b"Content-Length: 2\r\n\r\nhi" + b"GET /last HTTP/1.1\r\nHost: x\r\n\r\n")
        bodies = [json.loads(connection.read_answer()[2])["body"] for _ in range(2)]
    assert paths == [f"/{number}" for number in range(50)]
    assert bodies == ["hi", ""]
    assert time.monotonic() - began < ANSWER_TIMEOUT_SECONDS


def test_a_broken_request_behind_others_is_refused_after_their_answers(server):
    with server.connect() as connection:
        connection.send(b"GET /sleep/0.3 HTTP/1.1\r\nHost: x\r\n\r\nGET /a HTTP/1.1\r\nHost: x\r\n\r\nbroken\r\n\r\n")
        answers = [connection.read_answer() for _ in range(3)]
        assert connection.read_rest() == b""
    assert [status for status, _, _ in answers] == [200, 200, 400]


def test_requests_after_a_refused_body_are_answered_at_once(server):
    """Finding A1: head and body as two packets, refused before the body was read, as http.client sends them."""
    began = time.monotonic()
    with server.connect() as connection:
        for number in range(40):
            connection.send(b"POST /refuse HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n")
            time.sleep(0.002 * (number % 3))
            connection.send(b"hello")
            assert connection.read_answer()[0] == 403
            connection.send(b"GET /next HTTP/1.1\r\nHost: x\r\n\r\n")
            assert connection.read_answer()[0] == 200
    assert time.monotonic() - began < 2 * ANSWER_TIMEOUT_SECONDS


def test_an_upgrade_to_what_is_not_known_is_a_request_like_others(server):
    """Java's HTTP client asks each server for HTTP/2 with its first request, also beside a body."""
    upgrade = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"
    with server.connect() as connection:
        connection.send(POST_HEAD + upgrade + b"Content-Length: 2\r\n\r\nhi")
        assert json.loads(connection.read_answer()[2])["body"] == "hi"
        connection.send(b"GET /a HTTP/1.1\r\nHost: x\r\n" + upgrade + b"\r\nGET /b HTTP/1.1\r\nHost: x\r\n\r\n")
        paths = [json.loads(connection.read_answer()[2])["environ"]["PATH_INFO"] for _ in range(2)]
    assert paths == ["/a", "/b"]


# --- bodies


def test_programs_can_read_that_their_body_is_too_large(server):
    """Finding E11: urllib, which sends all before it reads, saw a reset instead of the 413."""
    url = "http://{}:{}/api/x".format(*server.address)
    for body in (b"x" * (5 * BODY_MAX_BYTES), iter([b"x" * 65536] * 100)):
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(urllib.request.Request(url, body, {"Content-Type": "x/y"}), timeout=30)
        assert refused.value.code == 413
        refused.value.close()


def test_a_connection_goes_on_after_a_body_that_was_too_large(server):
    connection = http.client.HTTPConnection(*server.address, timeout=30)
    for _ in range(2):
        connection.request("POST", "/api/x", b"x" * (2 * BODY_MAX_BYTES))
        answer = connection.getresponse()
        assert (answer.status, bool(answer.read())) == (413, True)
        connection.request("GET", "/a")
        answer = connection.getresponse()
        assert (answer.status, bool(answer.read())) == (200, True)
    connection.close()


def test_a_client_that_asks_first_sends_no_body_in_vain(server):
    """As curl does with large bodies: Expect: 100-continue."""
    expects = b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n"
    with server.connect() as connection:
        connection.send(POST_HEAD + expects % (BODY_MAX_BYTES + 1))
        assert connection.read_answer()[0] == 413
    with server.connect() as connection:
        connection.send(POST_HEAD + expects % 5)
        assert connection.read_until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue"
        connection.send(b"hello")
        assert json.loads(connection.read_answer()[2])["body"] == "hello"


def test_a_large_body_arrives_whole(server):
    sent = random.Random(1).randbytes(BODY_MAX_BYTES)
    head = POST_HEAD + b"Content-Length: %d\r\n\r\n" % len(sent)
    assert server.call(head, sent)[1]["body"].encode("latin-1") == sent


def test_a_body_that_ends_early_is_a_400(server):
    for begun in (POST_HEAD + b"Content-Length: 9\r\n\r\nhi", CHUNKED + b"5\r\nhi"):
        with server.connect() as connection:
            connection.send(begun)
            connection.socket.shutdown(socket.SHUT_WR)
            assert b" 400 " in connection.read_rest()


# --- what the application is given


def test_the_environment_is_that_of_wsgi(server):
    shown = server.call(
        b"POST /a%2Fb%20%C3%BC/%ff?q=%41&r=1 HTTP/1.1\r\nHost: name:81\r\nContent-Type: text/plain\r\n"
        b"Content-Length: 0\r\nX-A: 1\r\nX-A: 2\r\nCookie: a=1\r\nCookie: b=2\r\nX_A: 3\r\nProxy: evil\r\n"
        b"X-Latin: \xe9\r\nSCRIPT_NAME: /s\r\n\r\n"
    )[1]["environ"]
    wanted = {
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
    assert shown.items() >= wanted.items()
    assert not {"HTTP_PROXY", "HTTP_SCRIPT_NAME", "HTTP_CONTENT_LENGTH"} & shown.keys()


@pytest.mark.parametrize("host", ["x", "panel.example:8000", "127.0.0.1:80", "[fd88::1]:8000", "[::1]", "a_b-c.d.:"])
def test_hosts_are_names_or_addresses_with_or_without_a_port(server, host):
    assert server.call(f"GET /a HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())[1]["environ"]["HTTP_HOST"] == host


def test_targets_may_be_whole_addresses(server):
    for target, path in ((b"http://y/a?b=c", "/a"), (b"http://y", "/"), (b"//a/b", "//a/b")):
        with server.connect() as connection:
            connection.send(b"GET %s HTTP/1.1\r\nHost: x\r\n\r\n" % target)
            status, _, body = connection.read_answer()
            assert status == 404 if path == "/" else json.loads(body)["environ"]["PATH_INFO"] == path


def test_old_clients_get_whole_answers_and_the_end(server):
    with server.connect() as connection:
        connection.send(b"GET /lines/3 HTTP/1.0\r\n\r\n")
        status, head, body = connection.read_answer()
        assert connection.read_rest() == b""
    assert (status, body) == (200, b"".join(b"%d /lines/3\n" % number for number in range(3)))
    assert b"chunked" not in head


def test_streamed_answers_come_in_chunks(server):
    connection = http.client.HTTPConnection(*server.address, timeout=30)
    connection.request("GET", "/lines/1000")
    answer = connection.getresponse()
    assert answer.getheader("Transfer-Encoding") == "chunked"
    assert answer.read().count(b"\n") == 1000
    connection.close()


def test_head_has_the_headers_alone(server):
    with server.connect() as connection:
        connection.send(b"HEAD /large/5000 HTTP/1.1\r\nHost: x\r\n\r\n")
        status, head, _ = connection.read_answer(head_only=True)
        assert (status, b"content-length: 5000" in head.lower()) == (200, True)
        connection.send(b"GET /large/3 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert connection.read_answer()[2] == b"xxx"
        assert connection.read_rest() == b""


def test_a_client_that_only_sends_still_reads(server):
    """It shuts its sending half down before the answer, as `nc -N` does."""
    with server.connect() as connection:
        connection.send(b"GET /sleep/0.2 HTTP/1.1\r\nHost: x\r\n\r\n")
        connection.socket.shutdown(socket.SHUT_WR)
        assert connection.read_answer()[0] == 200
        assert connection.read_rest() == b""


def test_a_crash_of_the_application_is_a_500_in_the_dialect_of_the_path(server):
    status, body = server.get("/api/crash")
    assert (status, body["success"]) == (500, False)
    assert "test" not in body["message"]


def test_clients_that_leave_before_their_answer_harm_nobody(server):
    for _ in range(30):
        with server.connect() as connection:
            connection.send(b"GET /sleep/0.05 HTTP/1.1\r\nHost: x\r\n\r\n")
    assert server.get("/seen")[0] == 200
