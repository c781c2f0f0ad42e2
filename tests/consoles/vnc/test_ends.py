"""How a screen ends, and what ends it."""

import socket
import struct
import time
from contextlib import suppress

import pytest

from consoles.browser import MAX_MESSAGE_BYTES
from tests.consoles.conftest import PASSWORD, wait_until
from tests.consoles.vnc.conftest import NOISE_BYTES, echo, reset_connection, send_pictures, wait_for_close
from tests.support.console_client import BINARY, PING, PONG, TEXT
from tests.support.vnc_server import read_exactly


def test_the_browser_closes(screen, machine):
    server = machine(wait_for_close)
    session = screen(server)
    session.viewer.send(b"last words")
    session.viewer.close()
    assert session.viewer.ended() == (1000, "")
    session.wait_for("ended")
    assert session.word == "left"
    wait_until(lambda: server.connections[0].fileno() < 0, "the node's side to be closed")


@pytest.mark.parametrize("how", ["fin", "rst"])
def test_a_browser_that_disconnects_ends_the_console(screen, machine, how):
    heard = []
    server = machine(lambda connection: heard.append(read_exactly(connection, 10)))
    session = screen(server)
    session.viewer.send(b"last words")
    wait_until(lambda: heard == [b"last words"], "the last words")
    (reset_connection if how == "rst" else socket.socket.close)(session.viewer.connection)
    session.wait_for("ended")
    assert session.word in ("vanished", "finished")


def test_the_machine_breaks_off(screen, machine):
    session = screen(machine(reset_connection))
    assert session.viewer.ended() == (1011, "The connection to the instance was lost.")
    session.wait_for("ended")


def test_a_browser_that_vanished_is_found(pump_patience, request, machine):
    """It takes what is sent and answers nothing, as the kernel of a half-open peer seems to."""
    pump_patience |= {"ping": 0.1, "silence": 0.6}
    session = request.getfixturevalue("screen")(machine(wait_for_close))
    session.wait_for("ended")
    assert session.word == "vanished"
    assert session.viewer.next_frame() == (PING, b"")


def test_a_browser_that_answers_pings_stays(pump_patience, request, machine):
    pump_patience |= {"ping": 0.1, "silence": 0.4}
    session = request.getfixturevalue("screen")(machine(echo))
    end = time.monotonic() + 1.2
    while time.monotonic() < end:
        opcode, payload = session.viewer.next_frame()
        assert opcode == PING
        session.viewer.send(payload, PONG)
    assert session.line.close_reason is None


def test_a_reader_that_takes_nothing_at_all_is_given_up(pump_patience, request, machine):
    pump_patience |= {"ping": 0.1, "silence": 0.6}
    session = request.getfixturevalue("screen")(machine(send_pictures(50)), small=True)
    session.wait_for("ended")
    assert session.word == "vanished"


def test_a_reader_that_is_only_slow_stays(pump_patience, request, machine):
    """Taking a little now and then is a sign of life, also when pings are answered late or not at all."""
    pump_patience |= {"ping": 0.1, "silence": 0.6}
    session = request.getfixturevalue("screen")(machine(send_pictures(50)), small=True)
    session.viewer.answers_pings = False
    end = time.monotonic() + 1.5
    while time.monotonic() < end:
        session.viewer.read(8192)
        time.sleep(0.05)
    assert session.line.close_reason is None


def test_a_machine_that_takes_no_input_is_given_up(pump_patience, request, machine):
    pump_patience |= {"ping": 0.1, "silence": 0.6}
    session = request.getfixturevalue("screen")(machine(lambda connection: time.sleep(5)))
    session.viewer.connection.settimeout(0.2)
    with suppress(TimeoutError):
        while True:
            session.viewer.send(NOISE_BYTES[:MAX_MESSAGE_BYTES])
    session.wait_for("ended")
    assert session.word == "stuck"


@pytest.mark.parametrize("claimed", [MAX_MESSAGE_BYTES + 1, 1 << 40])
def test_a_frame_that_claims_too_much(screen, machine, claimed):
    """Refused at its header, before a byte of it was kept."""
    session = screen(machine(wait_for_close))
    session.viewer.connection.sendall(struct.pack(">BBQ", 0x80 | BINARY, 0xFF, claimed) + b"mask")
    with suppress(ConnectionError):  # it goes on all the same
        for _ in range(50):
            session.viewer.connection.sendall(NOISE_BYTES[:100_000])
            assert session.line.browser.unread_size < MAX_MESSAGE_BYTES
    assert session.viewer.next_frame()[1].startswith(struct.pack(">H", 1009))
    session.wait_for("ended")
    assert session.word == "too_big"


def test_a_message_that_grows_too_long_in_parts(screen, machine):
    session = screen(machine(wait_for_close))
    session.viewer.send(b"x" * 65536, fin=False)
    with suppress(ConnectionError):
        while not session.line.close_reason:
            session.viewer.send(b"x" * 65536, 0, fin=False)
    session.wait_for("ended")
    assert session.word == "too_big"


def test_text_is_refused(screen, machine):
    session = screen(machine(wait_for_close))
    session.viewer.send(b"hello", TEXT)
    assert session.viewer.ended()[0] == 1003
    session.wait_for("ended")
    assert session.word == "broken"


def test_frames_without_a_mask_are_refused(screen, machine):
    session = screen(machine(wait_for_close))
    session.viewer.send(b"hello", mask=False)
    assert session.viewer.ended()[0] == 1002


def test_a_pong_that_nobody_asked_for_is_fine(screen, machine):
    session = screen(machine(echo))
    session.viewer.send(b"", PONG)
    session.viewer.send(b"on")
    assert session.viewer.read(2) == b"on"


def test_nobody_uses_it(screen, machine):
    """A viewer's requests for updates go on as long as the picture changes: they are no use."""
    session = screen(machine(echo), idle=0.7)
    wait_until(lambda: session.line.close_reason or ask_for_update(session.viewer), "its end")
    assert session.viewer.ended() == (1000, "The console was closed because it was not used for a while.")


def ask_for_update(viewer):
    viewer.send(b"\3\1" + bytes(8))


def test_its_longest_duration(screen, machine):
    session = screen(machine(wait_for_close), longest=0.5)
    assert session.viewer.ended() == (1000, "The console reached its maximum duration. Open it again.")


def test_a_person_who_gives_no_password(screen, machine, monkeypatch):
    monkeypatch.setattr("consoles.vnc.PASSWORD_TIMEOUT_SECONDS", 0.3)
    session = screen(machine(wait_for_close), signs_in=False)
    assert session.viewer.ended() == (1008, "The console was closed because no password was given.")


def test_a_node_that_accepts_and_says_nothing(screen, machine, monkeypatch):
    monkeypatch.setattr("consoles.vnc.NODE_HANDSHAKE_TIMEOUT_SECONDS", 0.3)
    server = machine(wait_for_close)
    monkeypatch.setattr(server, "attend", lambda connection: None)
    session = screen(server, signs_in=False)
    assert session.viewer.sign_in(PASSWORD) == "The hypervisor does not respond."
