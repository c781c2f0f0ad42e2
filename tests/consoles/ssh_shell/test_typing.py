"""What a person does in a shell."""

import pytest

from tests.consoles.ssh_shell.conftest import echo
from tests.support.console_client import BINARY, TEXT


def test_what_is_typed_comes_back_and_the_end_is_told(shell, guest):
    server = guest(echo)
    session = shell(server)
    session.viewer.send("héllo".encode())
    assert session.viewer.read(6) == "héllo".encode()
    session.viewer.send(b"exit\r")
    assert session.viewer.ended() == (1000, "The shell ended.")
    assert session.viewer.says("exit") == {"type": "exit", "code": 7}
    assert session.viewer.says("ended")["reason"] == "finished"
    assert server.doors[0].terminal == b"xterm-256color"
    session.wait_for("ended")
    assert session.line.up > 11
    assert session.line.down == 6


def test_the_window_is_resized_within_reason(shell, guest):
    server = guest(echo)
    session = shell(server)
    for size in ((132, 43), (1, 10_000), (True, "24"), (-5, 3)):
        session.viewer.tell(type="resize", columns=size[0], rows=size[1])
    session.viewer.send(b"x")
    session.viewer.read(1)
    assert server.doors[0].sizes == [(80, 24), (132, 43), (2, 300), (2, 3)]


@pytest.mark.parametrize("message", [b"no json", b"[1]", b'{"type":"seen","bytes":-4}', b'{"type":"other"}', b"{}"])
def test_control_messages_that_make_no_sense_are_passed_over(shell, guest, message):
    session = shell(guest(echo))
    session.viewer.send(message, TEXT)
    session.viewer.send(b"on")
    assert session.viewer.read(2) == b"on"


def test_a_control_message_that_is_too_long(shell, guest):
    session = shell(guest(echo))
    session.viewer.send(b" " * 100_000, TEXT)
    assert session.viewer.ended()[0] == 1009


def test_a_client_without_the_protocol_is_a_plain_terminal(shell, guest):
    """Text and binary are typed alike, and all that comes is output."""
    session = shell(guest(echo), protocol="")
    assert b"Sec-WebSocket-Protocol" not in session.viewer.head
    session.viewer.send(b'{"type":"resize"}', TEXT)
    session.viewer.send(b"\xff\0", BINARY)
    assert session.viewer.read(19) == b'{"type":"resize"}\xff\0'
    session.viewer.close()
    session.wait_for("ended")
    assert session.viewer.messages == []
