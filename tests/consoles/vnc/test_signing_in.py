"""Authentication of the browser and of the panel to the VNC server."""

import socket

import pytest

from tests.consoles.console_session import PASSWORD
from tests.consoles.vnc.streams import echo
from tests.support.console_client import WEBSOCKET_ACCEPT
from tests.support.vnc_server import REFUSAL_REASON


@pytest.mark.parametrize("version", [3, 7, 8])
@pytest.mark.parametrize("node_version", [3, 7, 8])
@pytest.mark.parametrize("kind", [1, 2])
def test_browser_and_node_authenticate_separately(open_vnc_console, start_vnc_server, version, node_version, kind):
    server = start_vnc_server(echo, version=node_version, kind=kind)
    session = open_vnc_console(server, signs_in=False)
    assert session.viewer.sign_in(PASSWORD, version) is None
    session.wait_for_event("opened")
    session.viewer.send(b"hello")
    assert session.viewer.read(5) == b"hello"
    assert server.client_inits == [b"\1"]


def test_handshake_response_follows_rfc_6455(open_vnc_console, start_vnc_server):
    head = open_vnc_console(start_vnc_server(echo)).viewer.head.decode()
    assert head.startswith("HTTP/1.1 101 ")
    assert f"Sec-WebSocket-Accept: {WEBSOCKET_ACCEPT}" in head
    assert "Sec-WebSocket-Protocol: binary" in head


def test_wrong_password_does_not_contact_node(open_vnc_console, start_vnc_server):
    server = start_vnc_server(echo)
    session = open_vnc_console(server, signs_in=False)
    assert session.viewer.sign_in("guessing") == "The password of the console is wrong."
    assert session.viewer.wait_until_closed() == (1008, "The password of the console is wrong.")
    session.wait_for_event("ended")
    assert session.stream.close_reason.name == "wrong_password"
    assert server.connections == []


def test_empty_password_is_rejected(open_vnc_console, start_vnc_server):
    session = open_vnc_console(start_vnc_server(echo), password="", signs_in=False)
    assert session.viewer.sign_in("") == "The password of the console is wrong."


def test_node_password_is_rejected(open_vnc_console, start_vnc_server):
    assert open_vnc_console(start_vnc_server(echo), signs_in=False).viewer.sign_in("nodepass") is not None


def test_old_viewer_gets_error_in_close_frame(open_vnc_console, start_vnc_server):
    session = open_vnc_console(start_vnc_server(echo), signs_in=False)
    assert session.viewer.sign_in("guessing", version=3) == ""
    assert session.viewer.wait_until_closed() == (1008, "The password of the console is wrong.")


@pytest.mark.parametrize("version", [3, 8])
def test_node_rejection_message_is_forwarded(open_vnc_console, start_vnc_server, version):
    session = open_vnc_console(start_vnc_server(echo, refuses=True, version=version), signs_in=False)
    assert session.viewer.sign_in(PASSWORD) == REFUSAL_REASON.decode()
    assert session.viewer.wait_until_closed() == (1011, REFUSAL_REASON.decode())


def test_wrong_node_password_is_reported(open_vnc_console, start_vnc_server):
    session = open_vnc_console(start_vnc_server(echo), node_password="other", signs_in=False)
    message = f"The VNC server does not accept the panel: {REFUSAL_REASON.decode()}."
    assert session.viewer.sign_in(PASSWORD) == message
    assert session.viewer.wait_until_closed() == (1011, message)


def test_unreachable_node_is_reported(open_vnc_console, start_vnc_server):
    server = start_vnc_server(echo)
    server.close()
    session = open_vnc_console(server, signs_in=False)
    assert session.viewer.sign_in(PASSWORD) == "The hypervisor does not respond."
    assert session.viewer.wait_until_closed() == (1011, "The hypervisor does not respond.")
    session.wait_for_event("ended")
    assert session.stream.close_reason.name == "unreachable"


def test_next_address_is_tried_after_failure(open_vnc_console, start_vnc_server, monkeypatch):
    """A host name can have an address that does not respond, or of an unsupported address family."""
    getaddrinfo = socket.getaddrinfo
    others = [(99, socket.SOCK_STREAM, 0, "", ("192.0.2.1", 1)), *getaddrinfo("127.0.0.1", 1, type=socket.SOCK_STREAM)]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **fields: others + getaddrinfo(*args, **fields))
    session = open_vnc_console(start_vnc_server(echo))
    session.viewer.send(b"hello")
    assert session.viewer.read(5) == b"hello"


def test_excess_data_before_sign_in_is_rejected(open_vnc_console, start_vnc_server):
    session = open_vnc_console(start_vnc_server(echo), signs_in=False)
    session.viewer.send(b"RFB 003.008\n" + b"\2" + b"x" * 16 + b"y" * 5000)
    assert session.viewer.wait_until_closed()[0] == 1002


def test_browser_without_vnc_protocol_is_rejected(open_vnc_console, start_vnc_server):
    session = open_vnc_console(start_vnc_server(echo), signs_in=False)
    session.viewer.send(b"GET / HTTP/1.1\r\n")
    assert session.viewer.wait_until_closed() == (1011, "The browser does not speak VNC.")
