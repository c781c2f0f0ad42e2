"""Timeouts of a delivery attempt, and the address it connects to."""

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
def unanswered_port():
    """A port whose accept queue is full: connections hang as behind a firewall that drops packets."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(0)
    port = listener.getsockname()[1]
    clients = [socket.socket() for _ in range(4)]
    for client in clients:
        client.setblocking(False)
        client.connect_ex(("127.0.0.1", port))
    yield port
    for opened in (listener, *clients):
        opened.close()


def create_dripping_receiver(certificate, greeting, byte):
    """Return a receiver that sends a byte every second and never finishes its answer."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)

    def answer(connection):
        tls_connection = context.wrap_socket(connection, server_side=True)
        tls_connection.recv(65536)
        tls_connection.sendall(greeting)
        send_bytes_with_pauses(tls_connection, byte)

    return SilentServer(answer)


def send_bytes_with_pauses(connection, byte=b"\x16"):
    with suppress(OSError):  # the sender closes the connection
        while True:
            time.sleep(1)
            connection.sendall(byte)


def test_attempt_timeouts(unanswered_port, certificate, authority, allow_loopback):
    """DLV-30 DLV-31 DLV-32: a port that does not answer, a silent receiver, and receivers that drip the TLS handshake,
    headers or body. All run at once, because each takes its whole timeout."""
    context = create_ssl_context(authority.pem)
    silent = Receiver(certificate, answer=lambda handler: time.sleep(40))
    handshake = SilentServer(send_bytes_with_pauses)
    headers = create_dripping_receiver(certificate, b"HTTP/1.1 200 OK\r\nX: ", b"y")
    body = create_dripping_receiver(certificate, b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", b"z")
    endless = create_dripping_receiver(certificate, b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", b"z")
    cases = [
        (unanswered_port, "The receiver could not be reached within 5 seconds.", 5),
        (silent.port, "The receiver did not answer within 20 seconds.", 20),
        (headers.port, "The attempt was cut off because it took longer than 30 seconds.", 30),
        (body.port, 200, 30),
        (endless.port, 200, 30),
    ]
    connections = [
        ReceiverConnection(f"https://127.0.0.1:{port}/", context)
        for port in (*(case[0] for case in cases), handshake.port)
    ]
    stopped = threading.Event()

    def enforce_deadlines():
        while not stopped.wait(0.3):
            for connection in connections:
                connection.enforce_deadline()

    threading.Thread(target=enforce_deadlines, daemon=True).start()
    with ThreadPoolExecutor() as pool:
        *attempts, (result, duration) = pool.map(measure_attempt, connections)
    stopped.set()
    assert isinstance(result, str)
    assert duration <= 33
    for (_, expected, seconds), (result, duration) in zip(cases, attempts, strict=True):
        assert result == expected
        assert seconds - 0.2 <= duration <= seconds + 3, expected
    for server in (silent, handshake, headers, body, endless):
        server.close()


def measure_attempt(connection):
    """Return the status or the error of an attempt, and its seconds."""
    started_at = time.monotonic()
    try:
        result = connection.post(b"{}", {})[0]
    except AttemptFailed as error:
        result = str(error)
    return result, time.monotonic() - started_at


def test_connection_goes_to_checked_address(receiver, authority, monkeypatch):
    """DLV-41: the name is resolved once, and the certificate is checked for the name."""
    resolved_names, connected_hosts = [], []
    monkeypatch.setattr(url_policy, "resolve", lambda name: resolved_names.append(name) or [ip_address("127.0.0.1")])
    real = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", lambda host, *args: connected_hosts.append(host) or real(host, *args))
    connection = ReceiverConnection(receiver.url("/a?b=c", host="hooks.example.com"), create_ssl_context(authority.pem))
    assert connection.post(b"{}", {})[0] == 204
    assert (resolved_names, connected_hosts) == (["hooks.example.com"], ["127.0.0.1"])
    assert receiver.posts[0].headers["Host"] == f"hooks.example.com:{receiver.port}"
    assert receiver.posts[0].path == "/a?b=c"
    connection.close()


def test_name_that_resolves_to_internal_address_is_not_contacted(receiver, authority, change_config, monkeypatch):
    """DLV-41."""
    change_config(webhook_allowed_networks="")
    monkeypatch.setattr(url_policy, "resolve", lambda name: [ip_address("127.0.0.1")])
    with pytest.raises(AttemptFailed, match="not a public address"):
        ReceiverConnection(receiver.url(host="hooks.example.com"), create_ssl_context(authority.pem)).post(b"{}", {})
    assert receiver.connections == 0


def test_second_address_is_tried(receiver, authority, monkeypatch):
    monkeypatch.setattr(url_policy, "resolve", lambda name: [ip_address("127.0.0.9"), ip_address("127.0.0.1")])
    connection = ReceiverConnection(receiver.url(host="hooks.example.com"), create_ssl_context(authority.pem))
    assert connection.post(b"{}", {})[0] == 204
    connection.close()


def test_proxy_environment_variables_are_ignored(receiver, authority, monkeypatch):
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("all_proxy", "http://127.0.0.1:9")
    connection = ReceiverConnection(receiver.url(), create_ssl_context(authority.pem))
    assert connection.post(b"{}", {})[0] == 204
    connection.close()


def test_connection_closed_by_receiver_is_reopened(receiver, authority):
    def close_after_answer(handler):
        handler.send_response(200)
        handler.send_header("Content-Length", "0")
        handler.end_headers()
        handler.close_connection = True  # without announcing it

    receiver.answers = [close_after_answer, 204]
    connection = ReceiverConnection(receiver.url(), create_ssl_context(authority.pem))
    assert connection.post(b"{}", {})[0] == 200
    time.sleep(0.2)
    assert connection.post(b"{}", {})[0] == 204
    assert receiver.connections == 2
    connection.close()


@pytest.mark.parametrize(
    ("head", "body", "is_reused"),
    [
        ("Content-Length: 2", b"ok", True),
        ("Transfer-Encoding: chunked", b"2\r\nok\r\n0\r\n\r\n", True),
        ("Transfer-Encoding: chunked", b"2\r\nok\r\nzz\r\n", False),
        ("Content-Length: 70000", b"x" * 70000, False),
        ("Content-Length: 2\r\nConnection: close", b"ok", False),
        ("Connection: close", b"ok", False),
    ],
)
def test_connection_is_reused_after_complete_answer(receiver, authority, head, body, is_reused):
    def answer(handler):
        handler.wfile.write(b"HTTP/1.1 200 OK\r\n%s\r\n\r\n%s" % (head.encode(), body))
        handler.close_connection = head == "Connection: close"  # the end of the connection ends the body

    receiver.answers = [answer, 204]
    connection = ReceiverConnection(receiver.url(), create_ssl_context(authority.pem))
    assert [connection.post(b"{}", {})[0] for _ in range(2)] == [200, 204]
    assert receiver.connections == (1 if is_reused else 2)
    connection.close()


@pytest.mark.parametrize(
    ("host", "port", "name"),
    [
        ("example.com", 443, "example.com"),
        ("example.com", 8443, "example.com:8443"),
        ("2606:4700::1", 443, "[2606:4700::1]"),
    ],
)
def test_request_has_host_header_and_is_one_write(host, port, name):
    client_socket, server_socket = socket.socketpair()
    connection = PinnedConnection(url_policy.Target(host, port, "/a?b=c"), [], create_ssl_context())
    connection.sock = client_socket
    server_socket.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")
    assert connection.post("/a?b=c", {"X-One": "1"}, b"{}").status == 204
    head, body = server_socket.recv(65536).split(b"\r\n\r\n")
    assert head.decode().splitlines() == ["POST /a?b=c HTTP/1.1", f"Host: {name}", "Content-Length: 2", "X-One: 1"]
    assert body == b"{}"
    server_socket.close()
    connection.close()


def build_interim_answer(*interim, final=b"HTTP/1.1 204 No Content\r\n\r\n"):
    """Return an answer of a receiver: interim responses and then the final one."""

    def write(handler):
        for code in interim:
            handler.wfile.write(b"HTTP/1.1 %d Wait\r\nLink: </style.css>\r\n\r\n" % code)
        handler.wfile.write(final)

    return write


@pytest.mark.parametrize("interim", [(100,), (102,), (103,), (199,), (102, 103, 100, 102)])
def test_interim_responses_are_skipped(certificate, authority, allow_loopback, interim):
    """The response after 102 Processing or 103 Early Hints is the answer; the connection is reused."""
    receiver = Receiver(certificate, answer=build_interim_answer(*interim))
    connection = ReceiverConnection(receiver.url(), create_ssl_context(authority.pem))
    assert [connection.post(b"{}", {})[0] for _ in range(3)] == [204] * 3
    assert receiver.connections == 1
    connection.close()
    receiver.close()


def test_number_of_interim_responses_is_limited(certificate, authority, allow_loopback):
    """A receiver that sends only interim responses has not answered."""
    receiver = Receiver(certificate, answer=build_interim_answer(*[102] * 200))
    connection = ReceiverConnection(receiver.url(), create_ssl_context(authority.pem))
    with pytest.raises(AttemptFailed, match="not answer with HTTP"):
        connection.post(b"{}", {})
    receiver.close()
