"""Shells relay data unchanged, and the memory for unread output is bounded."""

import hashlib
import threading
import time
from contextlib import suppress

from consoles.ssh_shell import MAX_UNDRAWN_BYTES
from tests.consoles.ssh_shell.terminal import RANDOM_MEBIBYTE, echo, flood

MAX_MEASUREMENTS = 3
"""Other programs of the machine may disturb one measurement."""


def test_shell_output_arrives_unchanged(open_shell, start_ssh_guest):
    def play(channel, interface):
        for _ in range(4):
            channel.sendall(RANDOM_MEBIBYTE)
        return 0

    session = open_shell(start_ssh_guest(play))
    received = hashlib.sha256()
    for _ in range(4):
        received.update(session.viewer.read(1 << 20))
    assert received.hexdigest() == hashlib.sha256(RANDOM_MEBIBYTE * 4).hexdigest()
    assert session.viewer.wait_until_closed() == (1000, "The shell ended.")


def test_slow_terminal_receives_all_output(open_shell, start_ssh_guest):
    def play(channel, interface):
        channel.sendall(RANDOM_MEBIBYTE)
        return 0

    session = open_shell(start_ssh_guest(play), small=True)
    received = b""
    while len(received) < 1 << 20:
        received += session.viewer.read(1 << 14)
        time.sleep(0.002)
    assert received == RANDOM_MEBIBYTE


def test_long_paste_is_echoed_completely(open_shell, start_ssh_guest):
    """Both directions fill up: acknowledgements queue behind the input, which waits for the output."""
    session = open_shell(start_ssh_guest(echo))
    is_echoed = threading.Event()

    def paste():
        for start in range(0, 1 << 20, 65536):
            session.viewer.send(RANDOM_MEBIBYTE[start : start + 65536])
        while not is_echoed.wait(0.05):
            session.viewer.send_control(type="seen", bytes=1 << 20)

    session.viewer.acknowledges_output = False  # two threads must not send at once
    thread = threading.Thread(target=paste)
    thread.start()
    try:
        assert session.viewer.read(1 << 20) == RANDOM_MEBIBYTE
    finally:
        is_echoed.set()
        thread.join(20)


def test_unacknowledged_output_is_bounded(open_shell, start_ssh_guest):
    session = open_shell(start_ssh_guest(flood))
    session.viewer.acknowledges_output = False
    with suppress(TimeoutError):
        session.viewer.connection.settimeout(0.7)
        while True:
            session.viewer.stream += session.viewer.receive()[1]
    assert MAX_UNDRAWN_BYTES <= len(session.viewer.stream) <= MAX_UNDRAWN_BYTES + 65536


def test_ctrl_c_stops_flood_within_half_a_second(open_shell, start_ssh_guest):
    """The terminal draws 2 MB/s, as on a slow computer. Output sent after Ctrl-C is drawn within half a second."""
    durations = []
    while not durations or min(durations) >= 0.5:
        assert len(durations) < MAX_MEASUREMENTS, durations
        viewer = open_shell(start_ssh_guest(flood)).viewer
        for _ in range(20):
            draw_output(viewer)
        started_at = time.monotonic()
        viewer.send(b"\3")
        while not viewer.stream.endswith(b"^C"):
            viewer.stream = b""
            draw_output(viewer)
        durations.append(time.monotonic() - started_at)


def draw_output(viewer):
    data = viewer.receive()[1]
    viewer.stream += data
    time.sleep(len(data) / 2_000_000)
