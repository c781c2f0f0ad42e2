"""How both sides of a screen sign in."""

import socket

import pytest

from tests.consoles.conftest import PASSWORD
from tests.consoles.vnc.conftest import echo
from tests.support.console_client import WEBSOCKET_ACCEPT
from tests.support.vnc_server import REFUSAL_REASON


@pytest.mark.parametrize("version", [3, 7, 8])
@pytest.mark.parametrize("node_version", [3, 7, 8])
@pytest.mark.parametrize("kind", [1, 2])
def test_both_sides_sign_in_with_their_own_password(screen, machine, version, node_version, kind):
    server = machine(echo, version=node_version, kind=kind)
    session = screen(server, signs_in=False)
    assert session.viewer.sign_in(PASSWORD, version) is None
    session.wait_for("opened")
    session.viewer.send(b"hello")
    assert session.viewer.read(5) == b"hello"
    assert server.inits == [b"\1"]


def test_the_handshake_is_answered_as_rfc_6455_wants(screen, machine):
    head = screen(machine(echo)).viewer.head.decode()
    assert head.startswith("HTTP/1.1 101 ")
    assert f"Sec-WebSocket-Accept: {WEBSOCKET_ACCEPT}" in head
    assert "Sec-WebSocket-Protocol: binary" in head


def test_a_wrong_password_reaches_no_node(screen, machine):
    server = machine(echo)
    session = screen(server, signs_in=False)
    assert session.viewer.sign_in("guessing") == "The password of the console is wrong."
    assert session.viewer.ended() == (1008, "The password of the console is wrong.")
    session.wait_for("ended")
    assert session.word == "wrong_password"
    assert server.connections == []


def test_an_empty_password_admits_nobody(screen, machine):
    session = screen(machine(echo), password="", signs_in=False)
    assert session.viewer.sign_in("") == "The password of the console is wrong."


def test_the_node_s_password_does_not_open_a_session(screen, machine):
    assert screen(machine(echo), signs_in=False).viewer.sign_in("nodepass") is not None


def test_old_viewers_learn_why_from_the_close(screen, machine):
    session = screen(machine(echo), signs_in=False)
    assert session.viewer.sign_in("guessing", version=3) == ""
    assert session.viewer.ended() == (1008, "The password of the console is wrong.")


@pytest.mark.parametrize("version", [3, 8])
def test_a_node_that_turns_the_panel_away_is_quoted(screen, machine, version):
    session = screen(machine(echo, refuses=True, version=version), signs_in=False)
    assert session.viewer.sign_in(PASSWORD) == REFUSAL_REASON.decode()
    assert session.viewer.ended() == (1011, REFUSAL_REASON.decode())


def test_a_node_with_another_password_is_distinguished(screen, machine):
    session = screen(machine(echo), node_password="other", signs_in=False)
    said = f"The VNC server does not accept the panel: {REFUSAL_REASON.decode()}."
    assert session.viewer.sign_in(PASSWORD) == said
    assert session.viewer.ended() == (1011, said)


def test_a_node_that_is_not_there(screen, machine):
    server = machine(echo)
    server.close()
    session = screen(server, signs_in=False)
    assert session.viewer.sign_in(PASSWORD) == "The hypervisor does not respond."
    assert session.viewer.ended() == (1011, "The hypervisor does not respond.")
    session.wait_for("ended")
    assert session.word == "unreachable"


def test_the_next_address_is_tried(screen, machine, monkeypatch):
    """A name may have an address that nobody answers at, or of a kind this machine does not know."""
    found = socket.getaddrinfo
    others = [(99, socket.SOCK_STREAM, 0, "", ("192.0.2.1", 1)), *found("127.0.0.1", 1, type=socket.SOCK_STREAM)]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **more: others + found(*args, **more))
    screen(machine(echo))


def test_a_viewer_that_talks_without_end_before_it_is_in(screen, machine):
    session = screen(machine(echo), signs_in=False)
    session.viewer.send(b"RFB 003.008\n" + b"\2" + b"x" * 16 + b"y" * 5000)
    assert session.viewer.ended()[0] == 1002


def test_what_does_not_speak_vnc(screen, machine):
    session = screen(machine(echo), signs_in=False)
    session.viewer.send(b"GET / HTTP/1.1\r\n")
    assert session.viewer.ended() == (1011, "The browser does not speak VNC.")
