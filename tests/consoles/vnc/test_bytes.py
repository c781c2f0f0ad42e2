"""VNC consoles relay data unchanged, and consoles do not affect each other."""

import hashlib
import socket
import threading
import time

import pytest

from consoles.browser import MAX_MESSAGE_BYTES
from consoles.event_loop import MAX_READ_BYTES
from tests.consoles.console_session import PASSWORD
from tests.consoles.vnc.streams import RANDOM_MEBIBYTE, echo, hash_received, send_random_mebibytes
from tests.support.console_client import PING
from tests.support.vnc_server import read_exactly
from tests.support.waiting import wait_until


def test_vnc_output_arrives_unchanged_with_close_reason(open_vnc_console, start_vnc_server):
    session = open_vnc_console(start_vnc_server(send_random_mebibytes(16)))
    assert hash_received(session.viewer, 16) == hashlib.sha256(RANDOM_MEBIBYTE * 16).hexdigest()
    assert session.viewer.wait_until_closed() == (1000, "The instance closed the console.")
    session.wait_for_event("ended")
    assert (session.stream.close_reason.name, session.stream.bytes_out > 16 << 20) == ("finished", True)


def test_slow_browser_receives_all_output(open_vnc_console, start_vnc_server):
    session = open_vnc_console(start_vnc_server(send_random_mebibytes(2)), small=True)
    received = hashlib.sha256()
    for number in range(2 << 10):
        received.update(session.viewer.read(1 << 10))
        if number % 100 == 0:
            time.sleep(0.01)
    assert received.hexdigest() == hashlib.sha256(RANDOM_MEBIBYTE * 2).hexdigest()
    assert session.viewer.wait_until_closed()[0] == 1000


def test_slow_vnc_server_receives_all_input(open_vnc_console, start_vnc_server):
    received = hashlib.sha256()

    def read_with_pauses(connection):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32768)
        remaining, read_count = 1 << 20, 0
        while remaining and (data := connection.recv(4096)):
            received.update(data)
            remaining -= len(data)
            read_count += 1
            if read_count % 20 == 0:
                time.sleep(0.005)
        connection.sendall(b"done")

    session = open_vnc_console(start_vnc_server(read_with_pauses))
    for start in range(0, 1 << 20, 50_000):
        session.viewer.send(RANDOM_MEBIBYTE[start : start + 50_000])
    assert session.viewer.read(4) == b"done"
    assert received.hexdigest() == hashlib.sha256(RANDOM_MEBIBYTE).hexdigest()


@pytest.mark.parametrize("size", [0, 1, 3, 4, 125, 126, 1023, 1024, 1025, 65535, 65536, MAX_MESSAGE_BYTES])
def test_messages_with_all_sizes_are_echoed(open_vnc_console, start_vnc_server, size):
    session = open_vnc_console(start_vnc_server(echo))
    session.viewer.send(RANDOM_MEBIBYTE[:size])
    session.viewer.send(b"!")
    assert session.viewer.read(size + 1) == RANDOM_MEBIBYTE[:size] + b"!"


def test_ping_between_message_fragments_is_answered(open_vnc_console, start_vnc_server):
    viewer = open_vnc_console(start_vnc_server(echo)).viewer
    viewer.send(b"one ", fin=False)
    viewer.send(b"here?", PING)
    viewer.send(b"two ", 0, fin=False)
    viewer.send(b"three", 0)
    assert viewer.read(13) == b"one two three"
    assert viewer.pongs == [b"here?"]


def test_parallel_consoles_do_not_mix_data(open_vnc_console, start_vnc_server):
    server = start_vnc_server(echo)
    sessions = [open_vnc_console(server) for _ in range(20)]

    def exchange_data(number):
        data = bytes([number]) * 30_000
        for _ in range(10):
            sessions[number].viewer.send(data)
            assert sessions[number].viewer.read(len(data)) == data
        finished.append(number)

    finished = []
    threads = [threading.Thread(target=exchange_data, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert sorted(finished) == list(range(20))


def test_stalled_browser_limits_memory_and_keeps_input_open(open_vnc_console, start_vnc_server, event_loop):
    """Output is read only as fast as the browser accepts it, while input is still relayed."""
    sent, keys = [], []

    def play(connection):
        threading.Thread(target=lambda: keys.append(read_exactly(connection, 3)), daemon=True).start()
        while True:
            sent.append(connection.send(RANDOM_MEBIBYTE))

    session = open_vnc_console(start_vnc_server(play), small=True)
    wait_until(lambda: session.stream.browser.has_unsent, "the browser to fall behind")
    wait_until(lambda: is_unchanged(sent), "the VNC server to stall")
    assert session.stream.browser.unsent_size < MAX_READ_BYTES + 16
    session.viewer.send(b"key")
    wait_until(lambda: keys == [b"key"], "the keys")


def is_unchanged(values):
    before = len(values)
    time.sleep(0.2)
    return len(values) == before


def test_stalled_browser_keeps_only_last_pending_pong(open_vnc_console, start_vnc_server):
    """Only the last ping is answered, so unanswered pings use no memory."""
    session = open_vnc_console(start_vnc_server(send_random_mebibytes(50)), small=True)
    wait_until(lambda: session.stream.browser.has_unsent, "the browser to fall behind")
    before = session.stream.browser.unsent_size
    for number in range(500):
        session.viewer.send(b"%d" % number, PING)
    wait_until(lambda: session.stream.browser.pending_pong == b"499", "the last ping")
    assert session.stream.browser.unsent_size <= before


def test_disconnected_vnc_server_is_not_read_repeatedly(open_vnc_console, start_vnc_server):
    """The kernel reports the disconnect on every poll until the browser has read the remaining output."""
    session = open_vnc_console(start_vnc_server(send_random_mebibytes(4)), small=True)
    calls = []
    handle_upstream_event = session.stream.handle_upstream_event
    session.stream.handle_upstream_event = lambda event: calls.append(event) or handle_upstream_event(event)
    wait_until(lambda: session.stream.browser.has_unsent and is_unchanged(calls), "the browser to fall behind")
    session.stream.upstream.shutdown(socket.SHUT_RDWR)
    assert is_unchanged(calls)
    assert session.stream.close_reason is None


def test_exception_in_one_console_keeps_others_open(open_vnc_console, start_vnc_server):
    server = start_vnc_server(echo)
    other, session = open_vnc_console(server), open_vnc_console(server, signs_in=False)

    def fail(stream):
        raise ZeroDivisionError

    session.stream.on_opened = fail
    session.viewer.sign_in(PASSWORD)
    assert session.viewer.wait_until_closed() == (1011, "The console failed because of a fault in the panel.")
    other.viewer.send(b"on")
    assert other.viewer.read(2) == b"on"
