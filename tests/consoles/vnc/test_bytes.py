"""What goes through a screen arrives as it was, and no reader harms another."""

import hashlib
import socket
import threading
import time

import pytest

from consoles.browser import MAX_MESSAGE_BYTES
from consoles.event_loop import MAX_READ_BYTES
from tests.consoles.conftest import PASSWORD, wait_until
from tests.consoles.vnc.conftest import NOISE_BYTES, digest, echo, send_pictures
from tests.support.console_client import PING
from tests.support.vnc_server import read_exactly


def test_pictures_arrive_as_they_were_sent_and_end_with_a_reason(screen, machine):
    session = screen(machine(send_pictures(16)))
    assert digest(session.viewer, 16) == hashlib.sha256(NOISE_BYTES * 16).hexdigest()
    assert session.viewer.ended() == (1000, "The instance closed the console.")
    session.wait_for("ended")
    assert (session.word, session.line.down > 16 << 20) == ("finished", True)


def test_a_slow_reader_loses_nothing(screen, machine):
    session = screen(machine(send_pictures(2)), small=True)
    found = hashlib.sha256()
    for number in range(2 << 10):
        found.update(session.viewer.read(1 << 10))
        if number % 100 == 0:
            time.sleep(0.01)
    assert found.hexdigest() == hashlib.sha256(NOISE_BYTES * 2).hexdigest()
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
        session.viewer.send(NOISE_BYTES[start : start + 50_000])
    assert session.viewer.read(4) == b"done"
    assert got.hexdigest() == hashlib.sha256(NOISE_BYTES).hexdigest()


@pytest.mark.parametrize("size", [0, 1, 3, 4, 125, 126, 1023, 1024, 1025, 65535, 65536, MAX_MESSAGE_BYTES])
def test_messages_of_every_size(screen, machine, size):
    session = screen(machine(echo))
    session.viewer.send(NOISE_BYTES[:size])
    session.viewer.send(b"!")
    assert session.viewer.read(size + 1) == NOISE_BYTES[:size] + b"!"


def test_a_message_in_parts_with_a_ping_between(screen, machine):
    viewer = screen(machine(echo)).viewer
    viewer.send(b"one ", fin=False)
    viewer.send(b"here?", PING)
    viewer.send(b"two ", 0, fin=False)
    viewer.send(b"three", 0)
    assert viewer.read(13) == b"one two three"
    assert viewer.pongs == [b"here?"]


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
        threading.Thread(target=lambda: keys.append(read_exactly(connection, 3)), daemon=True).start()
        while True:
            sent.append(connection.send(NOISE_BYTES))

    session = screen(machine(play), small=True)
    wait_until(lambda: session.line.browser.unsent, "the browser to fall behind")
    wait_until(lambda: still(sent), "the machine to be held back")
    assert session.line.browser.unsent_size < MAX_READ_BYTES + 16
    session.viewer.send(b"key")
    wait_until(lambda: keys == [b"key"], "the keys")


def still(values):
    before = len(values)
    time.sleep(0.2)
    return len(values) == before


def test_pings_without_end_from_a_reader_that_stopped(screen, machine):
    """Only the last one is remembered."""
    session = screen(machine(send_pictures(50)), small=True)
    wait_until(lambda: session.line.browser.unsent, "the browser to fall behind")
    before = session.line.browser.unsent_size
    for number in range(500):
        session.viewer.send(b"%d" % number, PING)
    wait_until(lambda: session.line.browser.pending_pong == b"499", "the last ping")
    assert session.line.browser.unsent_size <= before


def test_a_machine_that_hung_up_is_not_asked_over_and_over(screen, machine):
    """The kernel reports it for as long as anybody watches, and the browser has not taken what came before."""
    session = screen(machine(send_pictures(4)), small=True)
    calls = []
    from_far = session.line.read_upstream
    session.line.read_upstream = lambda event: calls.append(event) or from_far(event)
    wait_until(lambda: session.line.browser.unsent and still(calls), "the browser to fall behind")
    session.line.upstream.shutdown(socket.SHUT_RDWR)
    assert still(calls)
    assert session.line.close_reason is None


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
