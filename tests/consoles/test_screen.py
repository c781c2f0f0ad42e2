"""Screens, from a browser's WebSocket through the pump to a VNC server: real sockets, nothing replaced."""

import hashlib
import random
import socket
import struct
import threading
import time
from contextlib import suppress

import pytest

from consoles.browser import LONGEST
from consoles.pump import CHUNK
from tests.consoles.conftest import PASSWORD, until
from tests.consoles.viewer import ACCEPT, BINARY, PING, PONG, TEXT
from tests.consoles.vnc import REASON, take

NOISE = random.Random(4).randbytes(1 << 20)


def echo(connection):
    while data := connection.recv(65536):
        connection.sendall(data)


def pictures(megabytes):
    def play(connection):
        for _ in range(megabytes):
            connection.sendall(NOISE)

    return play


def wait(connection):
    while connection.recv(65536):
        pass


def reset(connection):
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


# --- signing in


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
    assert f"Sec-WebSocket-Accept: {ACCEPT}" in head
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
    assert session.viewer.sign_in(PASSWORD) == REASON.decode()
    assert session.viewer.ended() == (1011, REASON.decode())


def test_a_node_with_another_password_is_told_apart(screen, machine):
    session = screen(machine(echo), node_password="other", signs_in=False)
    said = f"The machine's screen does not accept the panel: {REASON.decode()}."
    assert session.viewer.sign_in(PASSWORD) == said
    assert session.viewer.ended() == (1011, said)


def test_a_node_that_is_not_there(screen, machine):
    server = machine(echo)
    server.close()
    session = screen(server, signs_in=False)
    assert session.viewer.sign_in(PASSWORD) == "The machine's host does not answer."
    assert session.viewer.ended() == (1011, "The machine's host does not answer.")
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


# --- bytes


def test_pictures_arrive_as_they_were_sent_and_end_with_a_reason(screen, machine):
    session = screen(machine(pictures(16)))
    assert digest(session.viewer, 16) == hashlib.sha256(NOISE * 16).hexdigest()
    assert session.viewer.ended() == (1000, "The machine closed the console.")
    session.wait_for("ended")
    assert (session.word, session.line.down > 16 << 20) == ("finished", True)


def digest(seat, megabytes):
    found = hashlib.sha256()
    for _ in range(megabytes * 16):
        found.update(seat.read(1 << 16))
    return found.hexdigest()


def test_a_slow_reader_loses_nothing(screen, machine):
    session = screen(machine(pictures(2)), small=True)
    found = hashlib.sha256()
    for number in range(2 << 10):
        found.update(session.viewer.read(1 << 10))
        if number % 100 == 0:
            time.sleep(0.01)
    assert found.hexdigest() == hashlib.sha256(NOISE * 2).hexdigest()
    assert session.viewer.ended()[0] == 1000


def test_input_arrives_as_it_was_sent_to_a_slow_machine(screen, machine):
    got = hashlib.sha256()

    def slow(connection):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32768)
        left, pause = 1 << 20, 0
        while left and (data := connection.recv(4096)):
            got.update(data)
            left -= len(data)
            pause += 1
            if pause % 20 == 0:
                time.sleep(0.005)
        connection.sendall(b"done")

    session = screen(machine(slow))
    for start in range(0, 1 << 20, 50_000):
        session.viewer.send(NOISE[start : start + 50_000])
    assert session.viewer.read(4) == b"done"
    assert got.hexdigest() == hashlib.sha256(NOISE).hexdigest()


@pytest.mark.parametrize("size", [0, 1, 3, 4, 125, 126, 1023, 1024, 1025, 65535, 65536, LONGEST])
def test_messages_of_every_size(screen, machine, size):
    session = screen(machine(echo))
    session.viewer.send(NOISE[:size])
    session.viewer.send(b"!")
    assert session.viewer.read(size + 1) == NOISE[:size] + b"!"


def test_a_message_in_parts_with_a_ping_between(screen, machine):
    seat = screen(machine(echo)).viewer
    seat.send(b"one ", fin=False)
    seat.send(b"here?", PING)
    seat.send(b"two ", 0, fin=False)
    seat.send(b"three", 0)
    assert seat.read(13) == b"one two three"
    assert seat.pongs == [b"here?"]


def test_twenty_screens_keep_apart(screen, machine):
    server = machine(echo)
    sessions = [screen(server) for _ in range(20)]

    def use(number):
        said = bytes([number]) * 30_000
        for _ in range(10):
            sessions[number].viewer.send(said)
            assert sessions[number].viewer.read(len(said)) == said
        done.append(number)

    done = []
    threads = [threading.Thread(target=use, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert sorted(done) == list(range(20))


def test_a_reader_that_stops_costs_nothing_and_its_keys_still_arrive(screen, machine, pump):
    """The machine is read no further than the browser takes, while the other direction stays open."""
    sent, keys = [], []

    def play(connection):
        threading.Thread(target=lambda: keys.append(take(connection, 3)), daemon=True).start()
        while True:
            sent.append(connection.send(NOISE))

    session = screen(machine(play), small=True)
    until(lambda: session.line.browser.unsent, "the browser to fall behind")
    until(lambda: still(sent), "the machine to be held back")
    assert len(session.line.browser._send_buffer) < CHUNK + 16
    session.viewer.send(b"key")
    until(lambda: keys == [b"key"], "the keys")


def still(values):
    before = len(values)
    time.sleep(0.2)
    return len(values) == before


def test_pings_without_end_from_a_reader_that_stopped(screen, machine):
    """Only the last one is remembered."""
    session = screen(machine(pictures(50)), small=True)
    until(lambda: session.line.browser.unsent, "the browser to fall behind")
    before = len(session.line.browser._send_buffer)
    for number in range(500):
        session.viewer.send(b"%d" % number, PING)
    until(lambda: session.line.browser.asked_for_pong == b"499", "the last ping")
    assert len(session.line.browser._send_buffer) <= before


def test_a_machine_that_hung_up_is_not_asked_over_and_over(screen, machine):
    """The kernel reports it for as long as anybody watches, and the browser has not taken what came before."""
    session = screen(machine(pictures(4)), small=True)
    calls = []
    from_far = session.line.from_far
    session.line.from_far = lambda event: calls.append(event) or from_far(event)
    until(lambda: session.line.browser.unsent and still(calls), "the browser to fall behind")
    session.line.far.shutdown(socket.SHUT_RDWR)
    assert still(calls)
    assert session.line.ending is None


def test_a_fault_of_one_is_not_that_of_others(screen, machine):
    server = machine(echo)
    other, session = screen(server), screen(server, signs_in=False)

    def fail(line):
        raise ZeroDivisionError

    session.line.opened = fail
    session.viewer.sign_in(PASSWORD)
    assert session.viewer.ended() == (1011, "The console failed because of a fault in the panel.")
    other.viewer.send(b"on")
    assert other.viewer.read(2) == b"on"


# --- ends


def test_the_browser_closes(screen, machine):
    server = machine(wait)
    session = screen(server)
    session.viewer.send(b"last words")
    session.viewer.close()
    assert session.viewer.ended() == (1000, "")
    session.wait_for("ended")
    assert session.word == "left"
    until(lambda: server.connections[0].fileno() < 0, "the node's side to be closed")


@pytest.mark.parametrize("how", ["fin", "rst"])
def test_the_browser_goes_without_a_word(screen, machine, how):
    heard = []
    server = machine(lambda connection: heard.append(take(connection, 10)))
    session = screen(server)
    session.viewer.send(b"last words")
    until(lambda: heard == [b"last words"], "the last words")
    (reset if how == "rst" else socket.socket.close)(session.viewer.connection)
    session.wait_for("ended")
    assert session.word in ("vanished", "finished")


def test_the_machine_breaks_off(screen, machine):
    session = screen(machine(reset))
    assert session.viewer.ended() == (1011, "The connection to the machine was lost.")
    session.wait_for("ended")


def test_a_browser_that_vanished_is_found(lives, request, machine):
    """It takes what is sent and answers nothing, as the kernel of a half-open peer seems to."""
    lives |= {"ping": 0.1, "silence": 0.6}
    session = request.getfixturevalue("screen")(machine(wait))
    session.wait_for("ended")
    assert session.word == "vanished"
    assert session.viewer.next_frame() == (PING, b"")


def test_a_browser_that_answers_pings_stays(lives, request, machine):
    lives |= {"ping": 0.1, "silence": 0.4}
    session = request.getfixturevalue("screen")(machine(echo))
    end = time.monotonic() + 1.2
    while time.monotonic() < end:
        opcode, payload = session.viewer.next_frame()
        assert opcode == PING
        session.viewer.send(payload, PONG)
    assert session.line.ending is None


def test_a_reader_that_takes_nothing_at_all_is_given_up(lives, request, machine):
    lives |= {"ping": 0.1, "silence": 0.6}
    session = request.getfixturevalue("screen")(machine(pictures(50)), small=True)
    session.wait_for("ended")
    assert session.word == "vanished"


def test_a_reader_that_is_only_slow_stays(lives, request, machine):
    """Taking a little now and then is a sign of life, also when pings are answered late or not at all."""
    lives |= {"ping": 0.1, "silence": 0.6}
    session = request.getfixturevalue("screen")(machine(pictures(50)), small=True)
    session.viewer.answers_pings = False
    end = time.monotonic() + 1.5
    while time.monotonic() < end:
        session.viewer.read(8192)
        time.sleep(0.05)
    assert session.line.ending is None


def test_a_machine_that_takes_no_input_is_given_up(lives, request, machine):
    lives |= {"ping": 0.1, "silence": 0.6}
    session = request.getfixturevalue("screen")(machine(lambda connection: time.sleep(5)))
    session.viewer.connection.settimeout(0.2)
    with suppress(TimeoutError):
        while True:
            session.viewer.send(NOISE[:LONGEST])
    session.wait_for("ended")
    assert session.word == "stuck"


@pytest.mark.parametrize("claimed", [LONGEST + 1, 1 << 40])
def test_a_frame_that_claims_too_much(screen, machine, claimed):
    """Refused at its header, before a byte of it was kept."""
    session = screen(machine(wait))
    session.viewer.connection.sendall(struct.pack(">BBQ", 0x80 | BINARY, 0xFF, claimed) + b"mask")
    with suppress(ConnectionError):  # it goes on all the same
        for _ in range(50):
            session.viewer.connection.sendall(NOISE[:100_000])
            assert len(session.line.browser._recv_buffer) < LONGEST
    assert session.viewer.next_frame()[1].startswith(struct.pack(">H", 1009))
    session.wait_for("ended")
    assert session.word == "too_big"


def test_a_message_that_grows_too_long_in_parts(screen, machine):
    session = screen(machine(wait))
    session.viewer.send(b"x" * 65536, fin=False)
    with suppress(ConnectionError):
        while not session.line.ending:
            session.viewer.send(b"x" * 65536, 0, fin=False)
    session.wait_for("ended")
    assert session.word == "too_big"


def test_text_is_refused(screen, machine):
    session = screen(machine(wait))
    session.viewer.send(b"hello", TEXT)
    assert session.viewer.ended()[0] == 1003
    session.wait_for("ended")
    assert session.word == "broken"


def test_frames_without_a_mask_are_refused(screen, machine):
    session = screen(machine(wait))
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
    until(lambda: session.line.ending or ask_for_update(session.viewer), "its end")
    assert session.viewer.ended() == (1000, "The console was closed because nobody used it for a while.")


def ask_for_update(seat):
    seat.send(b"\3\1" + bytes(8))


def test_its_longest_duration(screen, machine):
    session = screen(machine(wait), longest=0.5)
    assert session.viewer.ended() == (1000, "The console reached its longest duration. Open it again.")


def test_a_person_who_gives_no_password(screen, machine, monkeypatch):
    monkeypatch.setattr("consoles.screen.BROWSER_PATIENCE", 0.3)
    session = screen(machine(wait), signs_in=False)
    assert session.viewer.ended() == (1008, "The console was closed because no password was given.")


def test_a_node_that_accepts_and_says_nothing(screen, machine, monkeypatch):
    monkeypatch.setattr("consoles.screen.NODE_PATIENCE", 0.3)
    server = machine(wait)
    monkeypatch.setattr(server, "attend", lambda connection: None)
    session = screen(server, signs_in=False)
    assert session.viewer.sign_in(PASSWORD) == "The machine's host does not answer."
