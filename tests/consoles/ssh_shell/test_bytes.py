"""What goes through a shell arrives as it was, and a flood harms nobody."""

import hashlib
import threading
import time
from contextlib import suppress

from consoles.ssh_shell import MAX_UNDRAWN_BYTES
from tests.consoles.ssh_shell.conftest import NOISE_BYTES, echo, flood


def test_output_arrives_as_it_was_printed(shell, guest):
    def play(channel, door):
        for _ in range(4):
            channel.sendall(NOISE_BYTES)
        return 0

    session = shell(guest(play))
    found = hashlib.sha256()
    for _ in range(4):
        found.update(session.viewer.read(1 << 20))
    assert found.hexdigest() == hashlib.sha256(NOISE_BYTES * 4).hexdigest()
    assert session.viewer.ended() == (1000, "The shell ended.")


def test_a_slow_terminal_loses_nothing(shell, guest):
    def play(channel, door):
        channel.sendall(NOISE_BYTES)
        return 0

    session = shell(guest(play), small=True)
    found = b""
    while len(found) < 1 << 20:
        found += session.viewer.read(1 << 14)
        time.sleep(0.002)
    assert found == NOISE_BYTES


def test_a_long_paste_is_echoed_whole(shell, guest):
    """Input and output fill up together: what was drawn is told behind the input, which waits for the output."""
    session = shell(guest(echo))
    is_echoed = threading.Event()

    def paste():
        for start in range(0, 1 << 20, 65536):
            session.viewer.send(NOISE_BYTES[start : start + 65536])
        while not is_echoed.wait(0.05):
            session.viewer.tell(type="seen", bytes=1 << 20)

    session.viewer.draws = False  # two threads must not send at once
    thread = threading.Thread(target=paste)
    thread.start()
    try:
        assert session.viewer.read(1 << 20) == NOISE_BYTES
    finally:
        is_echoed.set()
        thread.join(20)


def test_a_flood_stops_for_who_does_not_draw_and_costs_no_memory(shell, guest):
    session = shell(guest(flood))
    session.viewer.draws = False
    with suppress(TimeoutError):
        session.viewer.connection.settimeout(0.7)
        while True:
            session.viewer.stream += session.viewer.receive()[1]
    assert MAX_UNDRAWN_BYTES <= len(session.viewer.stream) <= MAX_UNDRAWN_BYTES + 65536


def test_ctrl_c_under_a_flood_is_quiet_soon(shell, guest):
    """The terminal draws 2 MB/s, as a slow computer does. What comes after Ctrl-C takes at most half a second."""
    session = shell(guest(flood))
    viewer = session.viewer
    for _ in range(20):
        draw(viewer)
    began = time.monotonic()
    viewer.send(b"\3")
    while not viewer.stream.endswith(b"^C"):
        viewer.stream = b""
        draw(viewer)
    assert time.monotonic() - began < 0.5


def draw(viewer):
    data = viewer.receive()[1]
    viewer.stream += data
    time.sleep(len(data) / 2_000_000)
