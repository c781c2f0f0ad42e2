"""How VNC consoles end."""

import socket
import struct
import time
from contextlib import suppress

import pytest

from consoles.browser import MAX_MESSAGE_BYTES
from tests.consoles.console_session import PASSWORD
from tests.consoles.vnc.streams import RANDOM_MEBIBYTE, echo, reset_connection, send_random_mebibytes, wait_for_close
from tests.support.console_client import BINARY, PING, PONG, TEXT
from tests.support.vnc_server import read_exactly
from tests.support.waiting import wait_until


def test_browser_close_ends_console(open_vnc_console, start_vnc_server):
    server = start_vnc_server(wait_for_close)
    session = open_vnc_console(server)
    session.viewer.send(b"last words")
    session.viewer.close()
    assert session.viewer.wait_until_closed() == (1000, "")
    session.wait_for_event("ended")
    assert session.stream.close_reason.name == "left"
    wait_until(lambda: server.connections[0].fileno() < 0, "the node's side to be closed")


@pytest.mark.parametrize("how", ["fin", "rst"])
def test_browser_disconnect_ends_console(open_vnc_console, start_vnc_server, how):
    received = []
    server = start_vnc_server(lambda connection: received.append(read_exactly(connection, 10)))
    session = open_vnc_console(server)
    session.viewer.send(b"last words")
    wait_until(lambda: received == [b"last words"], "the last input")
    (reset_connection if how == "rst" else socket.socket.close)(session.viewer.connection)
    session.wait_for_event("ended")
    assert session.stream.close_reason.name in ("vanished", "finished")


def test_vnc_server_reset_ends_console(open_vnc_console, start_vnc_server):
    session = open_vnc_console(start_vnc_server(reset_connection))
    assert session.viewer.wait_until_closed() == (1011, "The connection to the instance was lost.")
    session.wait_for_event("ended")


def test_browser_without_pong_is_disconnected(event_loop_options, request, start_vnc_server):
    """The browser reads everything but never answers, as on a half-open connection."""
    event_loop_options |= {"ping_interval_seconds": 0.1, "silence_timeout_seconds": 0.6}
    session = request.getfixturevalue("open_vnc_console")(start_vnc_server(wait_for_close))
    session.wait_for_event("ended")
    assert session.stream.close_reason.name == "vanished"
    assert session.viewer.next_frame() == (PING, b"")


def test_browser_answering_pings_stays_connected(event_loop_options, request, start_vnc_server):
    event_loop_options |= {"ping_interval_seconds": 0.1, "silence_timeout_seconds": 0.4}
    session = request.getfixturevalue("open_vnc_console")(start_vnc_server(echo))
    end = time.monotonic() + 1.2
    while time.monotonic() < end:
        opcode, payload = session.viewer.next_frame()
        assert opcode == PING
        session.viewer.send(payload, PONG)
    assert session.stream.close_reason is None


def test_stalled_browser_is_disconnected(event_loop_options, request, start_vnc_server):
    event_loop_options |= {"ping_interval_seconds": 0.1, "silence_timeout_seconds": 0.6}
    session = request.getfixturevalue("open_vnc_console")(start_vnc_server(send_random_mebibytes(50)), small=True)
    session.wait_for_event("ended")
    assert session.stream.close_reason.name == "vanished"


def test_slow_browser_stays_connected(event_loop_options, request, start_vnc_server):
    """Reading from time to time counts as a sign of life, also without answers to pings."""
    event_loop_options |= {"ping_interval_seconds": 0.1, "silence_timeout_seconds": 0.6}
    session = request.getfixturevalue("open_vnc_console")(start_vnc_server(send_random_mebibytes(50)), small=True)
    session.viewer.answers_pings = False
    end = time.monotonic() + 1.5
    while time.monotonic() < end:
        session.viewer.read(8192)
        time.sleep(0.05)
    assert session.stream.close_reason is None


def test_vnc_server_not_reading_input_ends_console(event_loop_options, request, start_vnc_server):
    event_loop_options |= {"ping_interval_seconds": 0.1, "silence_timeout_seconds": 0.6}
    session = request.getfixturevalue("open_vnc_console")(start_vnc_server(lambda connection: time.sleep(5)))
    session.viewer.connection.settimeout(0.2)
    with suppress(TimeoutError):
        while True:
            session.viewer.send(RANDOM_MEBIBYTE[:MAX_MESSAGE_BYTES])
    session.wait_for_event("ended")
    assert session.stream.close_reason.name == "stuck"


@pytest.mark.parametrize("announced_size", [MAX_MESSAGE_BYTES + 1, 1 << 40])
def test_oversized_frame_is_rejected_at_header(open_vnc_console, start_vnc_server, announced_size):
    """The frame is rejected at its header, before its payload is buffered."""
    session = open_vnc_console(start_vnc_server(wait_for_close))
    session.viewer.connection.sendall(struct.pack(">BBQ", 0x80 | BINARY, 0xFF, announced_size) + b"mask")
    with suppress(ConnectionError):  # the server may close while the client still sends
        for _ in range(50):
            session.viewer.connection.sendall(RANDOM_MEBIBYTE[:100_000])
            assert session.stream.browser.unread_size < MAX_MESSAGE_BYTES
    assert session.viewer.next_frame()[1].startswith(struct.pack(">H", 1009))
    session.wait_for_event("ended")
    assert session.stream.close_reason.name == "too_big"


def test_oversized_fragmented_message_is_rejected(open_vnc_console, start_vnc_server):
    session = open_vnc_console(start_vnc_server(wait_for_close))
    session.viewer.send(b"x" * 65536, fin=False)
    with suppress(ConnectionError):
        while not session.stream.close_reason:
            session.viewer.send(b"x" * 65536, 0, fin=False)
    session.wait_for_event("ended")
    assert session.stream.close_reason.name == "too_big"


def test_text_frame_is_rejected(open_vnc_console, start_vnc_server):
    session = open_vnc_console(start_vnc_server(wait_for_close))
    session.viewer.send(b"hello", TEXT)
    assert session.viewer.wait_until_closed()[0] == 1003
    session.wait_for_event("ended")
    assert session.stream.close_reason.name == "broken"


def test_unmasked_frame_is_rejected(open_vnc_console, start_vnc_server):
    session = open_vnc_console(start_vnc_server(wait_for_close))
    session.viewer.send(b"hello", mask=False)
    assert session.viewer.wait_until_closed()[0] == 1002


def test_unsolicited_pong_is_ignored(open_vnc_console, start_vnc_server):
    session = open_vnc_console(start_vnc_server(echo))
    session.viewer.send(b"", PONG)
    session.viewer.send(b"on")
    assert session.viewer.read(2) == b"on"


def test_unused_console_is_closed(open_vnc_console, start_vnc_server):
    """Viewers request updates by themselves while the picture changes, so these do not count as use."""
    session = open_vnc_console(start_vnc_server(echo), idle_timeout_seconds=0.7)
    wait_until(lambda: session.stream.close_reason or request_update(session.viewer), "its end")
    assert session.viewer.wait_until_closed() == (1000, "The console was closed because it was not used for a while.")


def request_update(viewer):
    viewer.send(b"\3\1" + bytes(8))


def test_console_is_closed_after_maximum_duration(open_vnc_console, start_vnc_server):
    session = open_vnc_console(start_vnc_server(wait_for_close), max_duration_seconds=0.5)
    assert session.viewer.wait_until_closed() == (1000, "The console reached its maximum duration. Open it again.")


def test_console_without_password_is_closed(open_vnc_console, start_vnc_server, monkeypatch):
    monkeypatch.setattr("consoles.vnc.PASSWORD_TIMEOUT_SECONDS", 0.3)
    session = open_vnc_console(start_vnc_server(wait_for_close), signs_in=False)
    assert session.viewer.wait_until_closed() == (1008, "The console was closed because no password was given.")


def test_silent_vnc_server_times_out(open_vnc_console, start_vnc_server, monkeypatch):
    monkeypatch.setattr("consoles.vnc.NODE_HANDSHAKE_TIMEOUT_SECONDS", 0.3)
    server = start_vnc_server(wait_for_close)
    monkeypatch.setattr(server, "handle_connection", lambda connection: None)
    session = open_vnc_console(server, signs_in=False)
    assert session.viewer.sign_in(PASSWORD) == "The hypervisor does not respond."
