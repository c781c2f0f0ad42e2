"""Input, resizing and control messages of shells."""

import pytest

from tests.consoles.ssh_shell.terminal import echo
from tests.support.console_client import BINARY, TEXT


def test_input_is_echoed_and_exit_code_is_reported(open_shell, start_ssh_guest):
    server = start_ssh_guest(echo)
    session = open_shell(server)
    session.viewer.send("héllo".encode())
    assert session.viewer.read(6) == "héllo".encode()
    session.viewer.send(b"exit\r")
    assert session.viewer.wait_until_closed() == (1000, "The shell ended.")
    assert session.viewer.wait_for_message("exit") == {"type": "exit", "code": 7}
    assert session.viewer.wait_for_message("ended")["reason"] == "finished"
    assert server.interfaces[0].terminal == b"xterm-256color"
    session.wait_for_event("ended")
    assert session.stream.bytes_in > 11
    assert session.stream.bytes_out == 6


def test_terminal_resize_is_clamped(open_shell, start_ssh_guest):
    server = start_ssh_guest(echo)
    session = open_shell(server)
    for size in ((132, 43), (1, 10_000), (True, "24"), (-5, 3)):
        session.viewer.send_control(type="resize", columns=size[0], rows=size[1])
    session.viewer.send(b"x")
    session.viewer.read(1)
    assert server.interfaces[0].sizes == [(80, 24), (132, 43), (2, 300), (2, 3)]


@pytest.mark.parametrize("message", [b"no json", b"[1]", b'{"type":"seen","bytes":-4}', b'{"type":"other"}', b"{}"])
def test_malformed_control_message_is_ignored(open_shell, start_ssh_guest, message):
    session = open_shell(start_ssh_guest(echo))
    session.viewer.send(message, TEXT)
    session.viewer.send(b"on")
    assert session.viewer.read(2) == b"on"


def test_oversized_control_message_is_rejected(open_shell, start_ssh_guest):
    session = open_shell(start_ssh_guest(echo))
    session.viewer.send(b" " * 100_000, TEXT)
    assert session.viewer.wait_until_closed()[0] == 1009


def test_client_without_subprotocol_is_plain_terminal(open_shell, start_ssh_guest):
    """Text and binary messages are both input, and every received message is output."""
    session = open_shell(start_ssh_guest(echo), protocol="")
    assert b"Sec-WebSocket-Protocol" not in session.viewer.head
    session.viewer.send(b'{"type":"resize"}', TEXT)
    session.viewer.send(b"\xff\0", BINARY)
    assert session.viewer.read(19) == b'{"type":"resize"}\xff\0'
    session.viewer.close()
    session.wait_for_event("ended")
    assert session.viewer.messages == []
