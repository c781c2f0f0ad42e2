"""From an HTTP request to an open console, through the web servers of `panel web` and of werkzeug."""

import os
import socket
import ssl
import tempfile
import threading
from pathlib import Path

import pytest
from werkzeug.serving import make_server

from consoles import fd_passing, ipc
from consoles.event_loop import EventLoop
from consoles.server import ConsoleServer
from panel.core.errors import TooMany, Unavailable
from tests.consoles import web
from tests.consoles.console_session import PASSWORD
from tests.consoles.web_process import start_web, stop_process
from tests.support import console_client, vnc_server
from tests.support.waiting import wait_until


def echo(connection):
    while data := connection.recv(65536):
        connection.sendall(data)


@pytest.fixture(scope="module")
def echo_vnc_server():
    server = vnc_server.VncServer(echo)
    yield server
    server.close()


@pytest.fixture(scope="module")
def socket_path():
    """A path that is short enough for a Unix socket."""
    with tempfile.TemporaryDirectory() as directory:
        yield Path(directory) / "consoles.sock"


@pytest.fixture
def console_server(socket_path):
    server = ConsoleServer(socket_path, event_loop=EventLoop(close_timeout_seconds=1), on_report=lambda report: None)
    server.start()
    yield server
    server.stop(0.05)


@pytest.fixture(scope="module")
def environment(socket_path, echo_vnc_server):
    return {**os.environ, "CONSOLES": str(socket_path), "NODE": str(echo_vnc_server.port)}


@pytest.fixture(scope="module")
def panel_web(environment):
    """The address of `panel web`. Connections wait in the backlog until it has started."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        process = start_web(listener, environment)
        yield listener.getsockname()
        stop_process(process)


@pytest.fixture(scope="module")
def werkzeug(socket_path, echo_vnc_server):
    os.environ["CONSOLES"], os.environ["NODE"] = str(socket_path), str(echo_vnc_server.port)
    server = make_server("127.0.0.1", 0, web.create_app_from_environment(), threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_address
    server.shutdown()
    del os.environ["CONSOLES"], os.environ["NODE"]


@pytest.fixture(params=["panel_web", "werkzeug"])
def web_address(request):
    return request.getfixturevalue(request.param)


@pytest.fixture
def connect_browser(web_address):
    """Return a function that connects a client to the web server."""
    connections = []

    def connect():
        connections.append(socket.create_connection(web_address, 20))
        return console_client.ConsoleClient(connections[-1], "binary")

    yield connect
    for connection in connections:
        connection.close()


def read_body(browser):
    """Return the body of an HTTP response that is not a WebSocket handshake."""
    headers = dict(line.lower().split(b": ", 1) for line in browser.head.split(b"\r\n")[1:])
    while len(browser.buffer) < int(headers[b"content-length"]):
        browser.receive_more()
    return browser.buffer.decode()


def is_echoing(browser):
    assert browser.sign_in(PASSWORD) is None
    browser.send(b"hello")
    return browser.read(5) == b"hello"


def test_websocket_request_opens_console(connect_browser, console_server):
    browser = connect_browser()
    assert browser.request() == 101
    assert is_echoing(browser)
    (stream,) = console_server.streams
    assert stream.labels == {"account": "ada", "session": "s"}


def test_web_threads_are_free_after_fd_passing(connect_browser, console_server):
    """More consoles are open than the web has threads."""
    browsers = [connect_browser() for _ in range(6)]
    assert [browser.request() for browser in browsers] == [101] * 6
    client = connect_browser()
    client.connection.sendall(b"GET /ping HTTP/1.1\r\nHost: panel\r\n\r\n")
    assert client.read_response() == 200
    assert all(is_echoing(browser) for browser in browsers)


def test_twenty_sockets_are_passed_in_parallel(connect_browser, console_server):
    browsers = [connect_browser() for _ in range(20)]
    answers = []
    threads = [
        threading.Thread(
            target=lambda browser=browser: answers.append(browser.request() == 101 and is_echoing(browser))
        )
        for browser in browsers
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert answers == [True] * 20
    assert len(console_server.streams) == 20


MISSING_HEADERS = {
    "the header Upgrade: websocket": {"Upgrade": None},
    "the header Connection: Upgrade": {"Connection": "keep-alive"},
    "the header Sec-WebSocket-Version: 13": {"Sec_WebSocket_Version": "8"},
    "the header Sec-WebSocket-Key with 16 bytes in base64": {"Sec_WebSocket_Key": "c2hvcnQ="},
}


@pytest.mark.parametrize("error", MISSING_HEADERS)
def test_incomplete_handshake_is_rejected_by_web(connect_browser, console_server, error):
    """The web server keeps the connection, and the client can reuse it if the server supports keep-alive."""
    browser = connect_browser()
    assert browser.request(**MISSING_HEADERS[error]) == 400
    assert f"{error} is missing." in read_body(browser)
    assert not console_server.streams


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://panel", 101),
        ("http://PANEL", 101),
        ("https://panel.example.com", 101),
        (None, 101),
        ("http://panel.evil.example", 403),
        ("http://panel:8080", 403),
        ("null", 403),
        ("file://panel", 403),
        ("http://[", 403),
    ],
)
def test_foreign_origin_is_rejected(connect_browser, console_server, origin, status):
    browser = connect_browser()
    assert browser.request(Origin=origin) == status
    if status == 403:
        assert "only from pages of the panel" in read_body(browser)


@pytest.mark.parametrize("web_address", ["panel_web"], indirect=True)
def test_data_before_handshake_response_is_rejected(connect_browser, console_server):
    """Data that a client sends before the handshake response would be lost by fd passing. So the request is rejected,
    and the connection stays usable for HTTP."""
    browser = connect_browser()
    upgrade = browser.build_request()
    browser.connection.sendall(upgrade + b"GET /ping HTTP/1.1\r\nHost: panel\r\n\r\n")
    assert browser.read_response() == 503
    assert "Consoles are not available" in read_body(browser)
    assert not console_server.streams


def test_request_without_console_process_answers_503(connect_browser, socket_path):
    assert not socket_path.exists()
    browser = connect_browser()
    assert browser.request() == 503
    assert "Consoles are not available at the moment" in read_body(browser)


@pytest.mark.parametrize("web_address", ["werkzeug"], indirect=True)
def test_unresponsive_console_process_answers_503(connect_browser, socket_path, monkeypatch):
    """The web answers the client itself. A console process that resumes later gets no `go` and discards the socket."""
    monkeypatch.setattr(fd_passing, "IPC_TIMEOUT_SECONDS", 0.3)  # effective for werkzeug, which runs in this process
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(socket_path))
        listener.listen()
        browser = connect_browser()
        assert browser.request() == 503
        caller, _ = listener.accept()
        command, descriptor = ipc.receive_command(caller)
        assert command["command"] == "open"
        assert caller.recv(10) == b""
        os.close(descriptor)
        caller.close()
    socket_path.unlink()
    assert "Consoles are not available" in read_body(browser)


def test_console_limit_answers_429(connect_browser, console_server, monkeypatch):
    monkeypatch.setattr(console_server, "max_consoles", 1)
    first, second = connect_browser(), connect_browser()
    assert first.request() == 101
    assert second.request() == 429
    assert "Too many consoles are open on this server" in read_body(second)
    first.connection.close()
    wait_until(lambda: not console_server.streams, "the first console to close")
    assert connect_browser().request() == 101


def test_consoles_outlive_web_server(environment, console_server):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        process = start_web(listener, environment)
        with socket.create_connection(listener.getsockname(), 20) as connection:
            browser = console_client.ConsoleClient(connection, "binary")
            assert browser.request() == 101
            assert is_echoing(browser)
            stop_process(process)
            browser.send(b"still")
            assert browser.read(5) == b"still"


def test_fd_passing_requires_plain_socket(socket_path):
    with pytest.raises(Unavailable, match="run the panel with `panel web`"):
        fd_passing.pass_socket({}, socket_path, {})
    context = ssl.create_default_context()
    with socket.socket() as plain:
        wrapped = context.wrap_socket(plain, server_hostname="panel", do_handshake_on_connect=False)
        with wrapped, pytest.raises(Unavailable, match="TLS must end in front"):
            fd_passing.pass_socket({"werkzeug.socket": wrapped}, socket_path, {})


def test_console_limit_error_has_reason(console_server, socket_path):
    client_socket, server_socket = console_client.socket_pair()
    environ = {"werkzeug.socket": server_socket, "HTTP_SEC_WEBSOCKET_KEY": console_client.WEBSOCKET_KEY}
    note = {"kind": "screen", "id": "s", "labels": {"account": "ada"}, "limits": {"account": 0}, "target": {}}
    note["target"] = {"host": "127.0.0.1", "port": 1, "password": "p", "node_password": ""}
    with client_socket, server_socket:
        with pytest.raises(TooMany, match="0 consoles of the same account are open already") as refused:
            fd_passing.pass_socket(environ, socket_path, note)
        assert refused.value.reason == "console_limit"
        server_socket.sendall(b"mine still")
        assert client_socket.recv(10) == b"mine still"
