"""How long an attempt may take, and where it goes."""

import socket
import ssl
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from ipaddress import ip_address

import pytest

from panel.services.webhooks import url_policy
from panel.services.webhooks.pinned_connection import PinnedConnection
from tests.support.webhook_receiver import Receiver, SilentServer
from worker.webhooks.connection import AttemptFailed, ReceiverConnection, create_ssl_context


@pytest.fixture
def full_port():
    """A port whose queue is full: nobody answers there, as behind a firewall that drops everything."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(0)
    port = listener.getsockname()[1]
    waiting = [socket.socket() for _ in range(4)]
    for each in waiting:
        each.setblocking(False)
        each.connect_ex(("127.0.0.1", port))
    yield port
    for each in (listener, *waiting):
        each.close()


def dripping_receiver(certificate, greeting, byte):
    """A receiver that says something every second and never comes to an end."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)

    def speak(connection):
        line = context.wrap_socket(connection, server_side=True)
        line.recv(65536)
        line.sendall(greeting)
        send_bytes_slowly(line, byte)

    return SilentServer(speak)


def send_bytes_slowly(connection, byte=b"\x16"):
    with suppress(OSError):  # it is cut off
        while True:
            time.sleep(1)
            connection.sendall(byte)


def test_how_long_an_attempt_may_take(full_port, certificate, authority, allow_loopback):
    """DLV-30 DLV-31 DLV-32: a port that does not answer, a receiver that is silent, ones that drip: the beginning of
    TLS, headers, a body. All at once, because they take their whole time."""
    context = create_ssl_context(authority.pem)
    silent = Receiver(certificate, answer=lambda handler: time.sleep(40))
    handshake = SilentServer(send_bytes_slowly)
    headers = dripping_receiver(certificate, b"HTTP/1.1 200 OK\r\nX: ", b"y")
    body = dripping_receiver(certificate, b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", b"z")
    endless = dripping_receiver(certificate, b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", b"z")
    tries = [
        (full_port, "The receiver could not be reached within 5 seconds.", 5),
        (silent.port, "The receiver did not answer within 20 seconds.", 20),
        (headers.port, "The attempt was cut off because it took longer than 30 seconds.", 30),
        (body.port, 200, 30),
        (endless.port, 200, 30),
    ]
    lines = [
        ReceiverConnection(f"https://127.0.0.1:{port}/", context)
        for port in (*(each[0] for each in tries), handshake.port)
    ]
    stopped = threading.Event()

    def watch():
        while not stopped.wait(0.3):
            for line in lines:
                line.enforce_deadline()

    threading.Thread(target=watch, daemon=True).start()
    with ThreadPoolExecutor() as pool:
        *measured, (said, took) = pool.map(measure, lines)
    stopped.set()
    assert isinstance(said, str)
    assert took <= 33
    for (_, expected, seconds), (said, took) in zip(tries, measured, strict=True):
        assert said == expected
        assert seconds - 0.2 <= took <= seconds + 3, expected
    for each in (silent, handshake, headers, body, endless):
        each.close()


def measure(line):
    began = time.monotonic()
    try:
        said = line.post(b"{}", {})[0]
    except AttemptFailed as failed:
        said = str(failed)
    return said, time.monotonic() - began


def test_it_goes_to_the_address_that_was_looked_at(receiver, authority, monkeypatch):
    """DLV-41: nobody asks a second time, and the certificate is for the name."""
    asked, connected = [], []
    monkeypatch.setattr(url_policy, "resolve", lambda name: asked.append(name) or [ip_address("127.0.0.1")])
    real = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", lambda host, *more: connected.append(host) or real(host, *more))
    line = ReceiverConnection(receiver.url("/a?b=c", host="hooks.example.com"), create_ssl_context(authority.pem))
    assert line.post(b"{}", {})[0] == 204
    assert (asked, connected) == (["hooks.example.com"], ["127.0.0.1"])
    assert receiver.posts[0].headers["Host"] == f"hooks.example.com:{receiver.port}"
    assert receiver.posts[0].path == "/a?b=c"
    line.close()


def test_a_name_that_leads_inside_by_now_is_not_contacted(receiver, authority, change_config, monkeypatch):
    """DLV-41."""
    change_config(webhook_allowed_networks="")
    monkeypatch.setattr(url_policy, "resolve", lambda name: [ip_address("127.0.0.1")])
    with pytest.raises(AttemptFailed, match="not a public address"):
        ReceiverConnection(receiver.url(host="hooks.example.com"), create_ssl_context(authority.pem)).post(b"{}", {})
    assert receiver.connections == 0


def test_a_second_address_is_tried(receiver, authority, monkeypatch):
    monkeypatch.setattr(url_policy, "resolve", lambda name: [ip_address("127.0.0.9"), ip_address("127.0.0.1")])
    line = ReceiverConnection(receiver.url(host="hooks.example.com"), create_ssl_context(authority.pem))
    assert line.post(b"{}", {})[0] == 204
    line.close()


def test_proxies_of_the_environment_are_not_asked(receiver, authority, monkeypatch):
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("all_proxy", "http://127.0.0.1:9")
    line = ReceiverConnection(receiver.url(), create_ssl_context(authority.pem))
    assert line.post(b"{}", {})[0] == 204
    line.close()


def test_a_connection_that_the_receiver_closed_is_made_anew(receiver, authority):
    def leave(handler):
        handler.send_response(200)
        handler.send_header("Content-Length", "0")
        handler.end_headers()
        handler.close_connection = True  # without a word

    receiver.answers = [leave, 204]
    line = ReceiverConnection(receiver.url(), create_ssl_context(authority.pem))
    assert line.post(b"{}", {})[0] == 200
    time.sleep(0.2)
    assert line.post(b"{}", {})[0] == 204
    assert receiver.connections == 2
    line.close()


@pytest.mark.parametrize(
    ("head", "body", "is_kept"),
    [
        ("Content-Length: 2", b"ok", True),
        ("Transfer-Encoding: chunked", b"2\r\nok\r\n0\r\n\r\n", True),
        ("Transfer-Encoding: chunked", b"2\r\nok\r\nzz\r\n", False),
        ("Content-Length: 70000", b"x" * 70000, False),
        ("Content-Length: 2\r\nConnection: close", b"ok", False),
        ("Connection: close", b"ok", False),
    ],
)
def test_a_connection_is_used_again_after_a_whole_answer(receiver, authority, head, body, is_kept):
    def answer(handler):
        handler.wfile.write(b"HTTP/1.1 200 OK\r\n%s\r\n\r\n%s" % (head.encode(), body))
        handler.close_connection = head == "Connection: close"  # its end is that of the body

    receiver.answers = [answer, 204]
    line = ReceiverConnection(receiver.url(), create_ssl_context(authority.pem))
    assert [line.post(b"{}", {})[0] for _ in range(2)] == [200, 204]
    assert receiver.connections == (1 if is_kept else 2)
    line.close()


@pytest.mark.parametrize(
    ("host", "port", "name"),
    [
        ("example.com", 443, "example.com"),
        ("example.com", 8443, "example.com:8443"),
        ("2606:4700::1", 443, "[2606:4700::1]"),
    ],
)
def test_a_request_names_the_host_and_is_one_write(host, port, name):
    one, other = socket.socketpair()
    connection = PinnedConnection(url_policy.Target(host, port, "/a?b=c"), [], create_ssl_context())
    connection.sock = one
    other.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")
    assert connection.post("/a?b=c", {"X-One": "1"}, b"{}").status == 204
    head, body = other.recv(65536).split(b"\r\n\r\n")
    assert head.decode().splitlines() == ["POST /a?b=c HTTP/1.1", f"Host: {name}", "Content-Length: 2", "X-One: 1"]
    assert body == b"{}"
    other.close()
    connection.close()


def answer_interim(*interim, final=b"HTTP/1.1 204 No Content\r\n\r\n"):
    """Return what a handler of a receiver does: answers that are not final, and then the last one."""

    def write(handler):
        for code in interim:
            handler.wfile.write(b"HTTP/1.1 %d Wait\r\nLink: </style.css>\r\n\r\n" % code)
        handler.wfile.write(final)

    return write


@pytest.mark.parametrize("interim", [(100,), (102,), (103,), (199,), (102, 103, 100, 102)])
def test_interim_answers_are_skipped(certificate, authority, allow_loopback, interim):
    """Finding B4: what follows 102 Processing or 103 Early Hints is the answer; the connection is used again."""
    receiver = Receiver(certificate, answer=answer_interim(*interim))
    line = ReceiverConnection(receiver.url(), create_ssl_context(authority.pem))
    assert [line.post(b"{}", {})[0] for _ in range(3)] == [204] * 3
    assert receiver.connections == 1
    line.close()
    receiver.close()


def test_interim_answers_have_an_end(certificate, authority, allow_loopback):
    """Finding B4: a receiver that sends nothing else has not answered."""
    receiver = Receiver(certificate, answer=answer_interim(*[102] * 200))
    line = ReceiverConnection(receiver.url(), create_ssl_context(authority.pem))
    with pytest.raises(AttemptFailed, match="not answer with HTTP"):
        line.post(b"{}", {})
    receiver.close()
