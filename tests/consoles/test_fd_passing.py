"""From an HTTP request to a screen, through real web servers: that of `panel web`, and werkzeug's."""

import os
import socket
import ssl
import subprocess
import sys
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
from tests.consoles.conftest import PASSWORD, wait_until
from tests.support import console_client, vnc_server


def echo(connection):
    while data := connection.recv(65536):
        connection.sendall(data)


@pytest.fixture(scope="module")
def machine():
    server = vnc_server.VncServer(echo)
    yield server
    server.close()


@pytest.fixture(scope="module")
def path():
    """Short enough for a socket."""
    with tempfile.TemporaryDirectory() as directory:
        yield Path(directory) / "consoles.sock"


@pytest.fixture
def consoles(path):
    made = ConsoleServer(path, event_loop=EventLoop(goodbye=1), report=lambda facts: None)
    made.start()
    yield made
    made.stop(0.05)


@pytest.fixture(scope="module")
def environment(path, machine):
    return {**os.environ, "CONSOLES": str(path), "NODE": str(machine.port)}


@pytest.fixture(scope="module")
def panel_web(environment):
    """Where it listens. It takes what waits there once it has started."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        process = start_web(listener, environment)
        yield listener.getsockname()
        stop_process(process)


def start_web(listener, environment):
    number = listener.fileno()
    command = [sys.executable, "-m", "tests.consoles.web", str(number)]
    return subprocess.Popen(command, pass_fds=[number], env=environment, cwd=Path(web.__file__).parents[2])


def stop_process(process):
    process.terminate()
    assert process.wait(20) == 0


@pytest.fixture(scope="module")
def werkzeug(path, machine):
    os.environ["CONSOLES"], os.environ["NODE"] = str(path), str(machine.port)
    server = make_server("127.0.0.1", 0, web.from_environment(), threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_address
    server.shutdown()
    del os.environ["CONSOLES"], os.environ["NODE"]


@pytest.fixture(params=["panel_web", "werkzeug"])
def server(request):
    return request.getfixturevalue(request.param)


@pytest.fixture
def connect_browser(server):
    """Makes viewers that are connected to the web server."""
    opened = []

    def make():
        opened.append(socket.create_connection(server, 20))
        return console_client.ConsoleClient(opened[-1], "binary")

    yield make
    for connection in opened:
        connection.close()


def body(browser):
    """The answer's text, when it was not a WebSocket."""
    headers = dict(line.lower().split(b": ", 1) for line in browser.head.split(b"\r\n")[1:])
    while len(browser.buffer) < int(headers[b"content-length"]):
        browser.more()
    return browser.buffer.decode()


def assert_works(browser):
    assert browser.sign_in(PASSWORD) is None
    browser.send(b"hello")
    return browser.read(5) == b"hello"


def test_a_request_becomes_a_screen(connect_browser, consoles):
    browser = connect_browser()
    assert browser.request() == 101
    assert assert_works(browser)
    (line,) = consoles.lines
    assert line.labels == {"account": "ada", "session": "s"}


def test_the_web_is_free_again_at_once(connect_browser, consoles):
    """Two threads serve, and more consoles than that are open."""
    browsers = [connect_browser() for _ in range(6)]
    assert [browser.request() for browser in browsers] == [101] * 6
    other = connect_browser()
    other.connection.sendall(b"GET /ping HTTP/1.1\r\nHost: panel\r\n\r\n")
    assert other.hear_answer() == 200
    assert all(assert_works(browser) for browser in browsers)


def test_twenty_sockets_are_passed_at_once(connect_browser, consoles):
    browsers = [connect_browser() for _ in range(20)]
    answers = []
    threads = [
        threading.Thread(target=lambda one=one: answers.append(one.request() == 101 and assert_works(one)))
        for one in browsers
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert answers == [True] * 20
    assert len(consoles.lines) == 20


MISSING_HEADERS = {
    "the header Upgrade: websocket": {"Upgrade": None},
    "the header Connection: Upgrade": {"Connection": "keep-alive"},
    "the header Sec-WebSocket-Version: 13": {"Sec_WebSocket_Version": "8"},
    "the header Sec-WebSocket-Key with 16 bytes in base64": {"Sec_WebSocket_Key": "c2hvcnQ="},
}


@pytest.mark.parametrize("demand", MISSING_HEADERS)
def test_what_is_no_handshake_is_400_and_goes_no_further(connect_browser, consoles, demand):
    """The connection stays the web server's, and can be used again where it keeps connections."""
    browser = connect_browser()
    assert browser.request(**MISSING_HEADERS[demand]) == 400
    assert f"{demand} is missing." in body(browser)
    assert not consoles.lines


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
def test_only_pages_of_the_panel_may_ask(connect_browser, consoles, origin, status):
    browser = connect_browser()
    assert browser.request(Origin=origin) == status
    if status == 403:
        assert "only from pages of the panel" in body(browser)


@pytest.mark.parametrize("server", ["panel_web"], indirect=True)
def test_what_a_client_sends_before_the_answer_goes_to_nobody(connect_browser, consoles):
    """A WebSocket begins with the answer. What came before it would be lost with the hand-over, so it is refused, and
    the connection goes on with requests."""
    browser = connect_browser()
    upgrade = browser.build_request()
    browser.connection.sendall(upgrade + b"GET /ping HTTP/1.1\r\nHost: panel\r\n\r\n")
    assert browser.hear_answer() == 503
    assert "Consoles are not available" in body(browser)
    assert not consoles.lines


def test_without_a_console_process_the_answer_is_a_sentence(connect_browser, path):
    assert not path.exists()
    browser = connect_browser()
    assert browser.request() == 503
    assert "Consoles are not available at the moment" in body(browser)


@pytest.mark.parametrize("server", ["werkzeug"], indirect=True)
def test_a_console_process_that_does_not_answer_gets_nothing(connect_browser, path, monkeypatch):
    """The web answers the client itself, and the process that wakes up later finds that it was not meant."""
    monkeypatch.setattr(fd_passing, "IPC_TIMEOUT_SECONDS", 0.3)  # of werkzeug, which is in this process
    with socket.socket(socket.AF_UNIX) as deaf:
        deaf.bind(str(path))
        deaf.listen()
        browser = connect_browser()
        assert browser.request() == 503
        caller, _ = deaf.accept()
        order, descriptor = ipc.receive_command(caller)
        assert order["do"] == "open"
        assert caller.recv(10) == b""
        os.close(descriptor)
        caller.close()
    path.unlink()
    assert "Consoles are not available" in body(browser)


def test_console_limit_answers_429(connect_browser, consoles, monkeypatch):
    monkeypatch.setattr(consoles, "max_consoles", 1)
    first, second = connect_browser(), connect_browser()
    assert first.request() == 101
    assert second.request() == 429
    assert "Too many consoles are open on this server" in body(second)
    first.connection.close()
    wait_until(lambda: not consoles.lines, "the first to be gone")
    assert connect_browser().request() == 101


def test_the_end_of_the_web_server_is_not_that_of_its_consoles(environment, consoles):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        process = start_web(listener, environment)
        with socket.create_connection(listener.getsockname(), 20) as connection:
            browser = console_client.ConsoleClient(connection, "binary")
            assert browser.request() == 101
            assert assert_works(browser)
            stop_process(process)
            browser.send(b"still")
            assert browser.read(5) == b"still"


def test_fd_passing_is_unavailable_without_a_plain_socket(path):
    with pytest.raises(Unavailable, match="run the panel with `panel web`"):
        fd_passing.pass_socket({}, path, {})
    context = ssl.create_default_context()
    with socket.socket() as plain:
        wrapped = context.wrap_socket(plain, server_hostname="panel", do_handshake_on_connect=False)
        with wrapped, pytest.raises(Unavailable, match="TLS must end in front"):
            fd_passing.pass_socket({"werkzeug.socket": wrapped}, path, {})


def test_a_console_limit_is_refused_with_its_reason(consoles, path):
    mine, other = console_client.socket_pair()
    environ = {"werkzeug.socket": other, "HTTP_SEC_WEBSOCKET_KEY": console_client.WEBSOCKET_KEY}
    note = {"kind": "screen", "id": "s", "labels": {"account": "ada"}, "limits": {"account": 0}, "target": {}}
    note["target"] = {"host": "127.0.0.1", "port": 1, "password": "p", "node_password": ""}
    with mine, other:
        with pytest.raises(TooMany, match="0 consoles of the same account are open already") as refused:
            fd_passing.pass_socket(environ, path, note)
        assert refused.value.reason == "console_limit"
        other.sendall(b"mine still")
        assert mine.recv(10) == b"mine still"
