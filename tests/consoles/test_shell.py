"""Shells, from a browser's WebSocket through the pump and paramiko to an SSH server."""

import hashlib
import json
import random
import socket
import threading
import time
from contextlib import suppress

import paramiko
import pytest

from consoles import endings
from consoles.shell import WINDOW, Shell
from consoles.ssh import Guest
from tests.consoles import guest as guests
from tests.consoles import viewer
from tests.consoles.conftest import Session, until
from tests.consoles.viewer import BINARY, TEXT, Closed

NOISE = random.Random(5).randbytes(1 << 20)


class Terminal(viewer.Viewer):
    """The page's side: output to `stream`, control messages to `messages`; says what it has drawn, if it `draws`."""

    def __init__(self, connection, protocol):
        super().__init__(connection, protocol)
        self.messages, self.draws = [], True

    def receive(self):
        opcode, payload = super().receive()
        if opcode == TEXT:
            self.messages.append(json.loads(payload))
            return opcode, b""
        if self.draws and self.protocol:
            self.tell(type="seen", bytes=len(payload))
        return opcode, payload

    def tell(self, **message):
        self.send(json.dumps(message).encode(), TEXT)

    def says(self, kind):
        """The next message of that type."""
        while not (found := [message for message in self.messages if message["type"] == kind]):
            self.receive()
        return found[0]


@pytest.fixture
def guest():
    made = []

    def make(play, *host_keys, **options):
        made.append(guests.Server(play, *host_keys, **options))
        return made[-1]

    yield make
    for server in made:
        server.close()


@pytest.fixture
def shell(pump):
    opened = []

    def make(server, protocol="panel-shell", small=False, opens=True, more=None, **target):
        mine, other = viewer.pair(small=small)
        seat = Terminal(mine, protocol)
        facts = {"host": server.host, "port": server.port, "user": "root", "private_key": server.user_key, **target}
        protocols = [protocol] if protocol else []
        line = Shell(other, {"key": viewer.KEY, "protocols": protocols}, Guest(**facts), **more or {})
        session = Session(line, seat)
        pump.add(line)
        assert seat.hear_answer() == 101
        opened.append(mine)
        if opens:
            session.wait_for("opened")
        return session

    yield make
    for connection in opened:
        connection.close()


def echo(channel, door):
    while (data := channel.recv(65536)) and data != b"exit\r":
        channel.sendall(data)
    return 7


def flood(channel, door):
    """`yes`, until Ctrl-C; then it says so."""
    stopped = threading.Event()

    def listen():
        while data := channel.recv(1000):
            if b"\3" in data:
                stopped.set()

    threading.Thread(target=listen, daemon=True).start()
    while not stopped.is_set():
        channel.sendall(b"y\r\n" * 2000)
    channel.sendall(b"^C")
    time.sleep(30)


# --- what a person does


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


# --- bytes


def test_output_arrives_as_it_was_printed(shell, guest):
    def play(channel, door):
        for _ in range(4):
            channel.sendall(NOISE)
        return 0

    session = shell(guest(play))
    found = hashlib.sha256()
    for _ in range(4):
        found.update(session.viewer.read(1 << 20))
    assert found.hexdigest() == hashlib.sha256(NOISE * 4).hexdigest()
    assert session.viewer.ended() == (1000, "The shell ended.")


def test_a_slow_terminal_loses_nothing(shell, guest):
    def play(channel, door):
        channel.sendall(NOISE)
        return 0

    session = shell(guest(play), small=True)
    found = b""
    while len(found) < 1 << 20:
        found += session.viewer.read(1 << 14)
        time.sleep(0.002)
    assert found == NOISE


def test_a_long_paste_is_echoed_whole(shell, guest):
    """Input and output fill up together: what was drawn is told behind the input, which waits for the output."""
    session = shell(guest(echo))
    paste = threading.Thread(
        target=lambda: [session.viewer.send(NOISE[i : i + 65536]) for i in range(0, 1 << 20, 65536)]
    )
    session.viewer.draws = False  # two threads must not send at once
    paste.start()
    found = b""
    while len(found) < 1 << 20:
        found += session.viewer.read(1 << 14)
        if len(found) % (1 << 17) == 0 and not paste.is_alive():
            session.viewer.tell(type="seen", bytes=1 << 20)
    paste.join(20)
    assert found == NOISE


def test_a_flood_stops_for_who_does_not_draw_and_costs_no_memory(shell, guest):
    session = shell(guest(flood))
    session.viewer.draws = False
    with suppress(TimeoutError):
        session.viewer.connection.settimeout(0.7)
        while True:
            session.viewer.stream += session.viewer.receive()[1]
    assert WINDOW <= len(session.viewer.stream) <= WINDOW + 65536


def test_ctrl_c_under_a_flood_is_quiet_soon(shell, guest):
    """The terminal draws 2 MB/s, as a slow computer does. What comes after Ctrl-C takes at most half a second."""
    session = shell(guest(flood))
    seat = session.viewer
    for _ in range(20):
        draw(seat)
    began = time.monotonic()
    seat.send(b"\3")
    while not seat.stream.endswith(b"^C"):
        seat.stream = b""
        draw(seat)
    assert time.monotonic() - began < 0.5


def draw(seat):
    data = seat.receive()[1]
    seat.stream += data
    time.sleep(len(data) / 2_000_000)


# --- who the guest is


def test_the_host_key_is_learnt(shell, guest):
    server = guest(echo)
    session = shell(server)
    key = server.host_keys[0]
    assert session.line.host_key == guests.line(key)
    assert session.viewer.says("ready")["fingerprint"] == key.fingerprint


def test_the_known_host_key_is_asked_for(shell, guest):
    """A guest with several keys would show another one first."""
    keys = [paramiko.ECDSAKey.generate(), guests.loaded(guests.new_key()), paramiko.RSAKey.generate(2048)]
    server = guest(echo, *keys)
    for key in keys:
        assert shell(server, host_key=guests.line(key)).line.host_key == guests.line(key)


@pytest.mark.parametrize("known", [lambda: guests.loaded(guests.new_key()), paramiko.ECDSAKey.generate])
def test_another_host_key_is_shown_no_credentials(shell, guest, known):
    server = guest(echo)
    session = shell(server, host_key=guests.line(known()), opens=False)
    assert session.viewer.ended() == (1008, "The machine shows another host key than before. Check why.")
    assert session.viewer.says("ended")["reason"] == "host_key_changed"
    assert [door.tries for door in server.doors] == [0]


def test_what_was_typed_early_does_not_hide_the_reason(shell, guest):
    """The page resizes at once, while the panel still talks to the guest."""
    server = guest(echo)
    for _ in range(5):
        session = shell(server, private_key=guests.new_key(), opens=False)
        session.viewer.tell(type="resize", columns=100, rows=40)
        session.viewer.send(b"impatient")
        assert session.viewer.ended() == (1008, "The machine does not accept the panel's key.")


# --- what goes wrong


def test_no_ssh_server(shell, guest):
    server = guest(echo)
    server.close()
    session = shell(server, opens=False)
    said = "The machine does not answer to SSH. Is it up, and is its port open?"
    assert session.viewer.ended() == (1011, said)
    session.wait_for("ended")
    assert session.word == "unreachable"


def test_no_terminal(shell, guest):
    session = shell(guest(echo, gives_terminals=False), opens=False)
    assert session.viewer.ended() == (1011, "The machine gives the panel no terminal.")


def test_what_does_not_speak_ssh(shell, guest, machine):
    server = guest(echo)
    other = machine(lambda connection: None)
    other.attend = lambda connection: connection.close()
    server.close()
    session = shell(server, port=other.port, opens=False)
    assert session.viewer.ended() == (1011, "The machine's SSH server broke off the conversation.")


def test_the_guest_dies(shell, guest):
    server = guest(echo)
    session = shell(server)
    server.transports[0].sock.close()
    server.transports[0].close()
    assert session.viewer.ended() == (1011, "The connection to the machine was lost.")


def test_the_browser_goes_and_nothing_is_left(shell, guest):
    before = threading.active_count()
    server = guest(echo)
    sessions = [shell(server) for _ in range(3)]
    for session in sessions:
        session.viewer.connection.close()
        session.wait_for("ended")
    until(lambda: all(not transport.is_active() for transport in server.transports), "the guest's side to end")
    server.close()
    until(lambda: threading.active_count() <= before + 1, "the threads to end")  # the server's own listens on


def test_nothing_is_left_of_a_guest_that_takes_no_input(shell, guest):
    """It neither reads nor prints, and more was pasted than it takes."""
    before = threading.active_count()
    session = shell(guest(lambda channel, door: time.sleep(30)))
    for _ in range(24):
        session.viewer.send(NOISE[:131072])
    until(lambda: session.line.for_far, "the guest to be full")
    session.viewer.connection.shutdown(socket.SHUT_RDWR)
    session.line.pump.call(session.line.end, endings.CLOSED)
    session.wait_for("ended")
    until(lambda: not names("console-shell"), "the threads to end", 5)
    assert threading.active_count() <= before + 4  # those of the test's server


def names(start):
    return [thread.name for thread in threading.enumerate() if thread.name.startswith(start)]


def test_the_last_words_of_a_guest_are_drawn(shell, guest):
    """It ends while the browser is still far behind with drawing."""

    def play(channel, door):
        channel.sendall(NOISE[: 2 * WINDOW])
        return 3

    session = shell(guest(play))
    session.viewer.draws = False
    assert session.viewer.read(WINDOW) == NOISE[:WINDOW]
    time.sleep(0.3)
    session.viewer.send(b"typed to nobody")
    session.viewer.tell(type="seen", bytes=WINDOW)
    session.viewer.draws = True
    assert session.viewer.read(WINDOW) == NOISE[WINDOW : 2 * WINDOW]
    assert session.viewer.ended() == (1000, "The shell ended.")
    assert session.viewer.says("exit")["code"] == 3


def test_a_page_measures_the_way_to_the_panel(shell, guest):
    """The answer comes from the panel, also while the guest takes nothing."""
    session = shell(guest(lambda channel, door: time.sleep(30)))
    session.viewer.send(b'{"type":"ping","at":12.5}', TEXT)
    assert session.viewer.says("pong") == {"type": "pong", "at": 12.5}


def test_pings_do_not_pile_up(shell, guest):
    """Who asks and does not read is not answered; what is too long is no ping."""
    session = shell(guest(echo), small=True)
    session.viewer.send(b'{"type":"ping","at":"' + b"x" * 1000 + b'"}', TEXT)
    session.viewer.send(b'{"type":"ping","at":1}', TEXT)
    assert session.viewer.says("pong")["at"] == 1
    for number in range(20000):
        session.viewer.send(b'{"type":"ping","at":%d,"and":"%s"}' % (number, b"x" * 60), TEXT)
    assert session.line.browser.unsent
    assert len(session.line.browser._send_buffer) < 1000


def test_it_is_closed_from_outside(shell, guest, pump):
    session = shell(guest(echo))
    pump.call(session.line.end, endings.CLOSED.saying("Your sign-in was ended."))
    assert session.viewer.ended() == (1008, "Your sign-in was ended.")
    assert session.viewer.says("ended")["message"] == "Your sign-in was ended."


def test_drawing_and_resizing_are_no_use(shell, guest):
    """A terminal that only answers by itself is idle."""
    session = shell(guest(flood), more={"idle": 0.5})
    end = time.monotonic() + 20
    seat = session.viewer
    with suppress(Closed):
        while time.monotonic() < end:
            seat.receive()
    session.wait_for("ended")
    assert session.word == "unused"


def test_it_begins_while_being_closed(shell, guest, pump):
    """Closed between the hand-over and the first byte."""
    server = guest(echo)
    mine, other = viewer.pair()
    target = Guest(server.host, server.port, "root", server.user_key)
    line = Shell(other, {"key": viewer.KEY, "protocols": ["panel-shell"]}, target)
    pump.call(line.end, endings.CLOSED)
    pump.add(line)
    seat = Terminal(mine, "panel-shell")
    assert seat.hear_answer() == 101
    assert seat.ended() == (1008, "The console was closed by the panel.")
    assert server.doors == []
