"""What goes wrong in a shell, and how it ends."""

import socket
import threading
import time
from contextlib import suppress

from consoles import close_codes
from consoles.ssh import SshTarget
from consoles.ssh_shell import MAX_UNDRAWN_BYTES, SshConsole
from tests.consoles.conftest import wait_until
from tests.consoles.ssh_shell.conftest import NOISE_BYTES, Terminal, echo, flood
from tests.support import console_client
from tests.support.console_client import TEXT, WebSocketClosed


def test_no_ssh_server(shell, guest):
    server = guest(echo)
    server.close()
    session = shell(server, opens=False)
    said = "The instance does not respond to SSH. Check that it is running and that its port is open."
    assert session.viewer.ended() == (1011, said)
    session.wait_for("ended")
    assert session.word == "unreachable"


def test_no_terminal(shell, guest):
    session = shell(guest(echo, gives_terminals=False), opens=False)
    assert session.viewer.ended() == (1011, "The instance did not open a terminal.")


def test_what_does_not_speak_ssh(shell, guest, machine):
    server = guest(echo)
    other = machine(lambda connection: None)
    other.attend = lambda connection: connection.close()
    server.close()
    session = shell(server, port=other.port, opens=False)
    assert session.viewer.ended() == (1011, "The SSH server of the instance closed the connection.")


def test_a_killed_guest_ends_the_console(shell, guest):
    server = guest(echo)
    session = shell(server)
    server.transports[0].sock.close()
    server.transports[0].close()
    assert session.viewer.ended() == (1011, "The connection to the instance was lost.")


def test_the_browser_goes_and_nothing_is_left(shell, guest):
    before = threading.active_count()
    server = guest(echo)
    sessions = [shell(server) for _ in range(3)]
    for session in sessions:
        session.viewer.connection.close()
        session.wait_for("ended")
    wait_until(lambda: all(not transport.is_active() for transport in server.transports), "the guest's side to end")
    server.close()
    wait_until(lambda: threading.active_count() <= before + 1, "the threads to end")  # the server's own listens on


def test_nothing_is_left_of_a_guest_that_takes_no_input(shell, guest):
    """It neither reads nor prints, and more was pasted than it takes."""
    before = threading.active_count()
    session = shell(guest(lambda channel, door: time.sleep(30)))
    for _ in range(24):
        session.viewer.send(NOISE_BYTES[:131072])
    wait_until(lambda: session.line.upstream_queue, "the guest to be full")
    session.viewer.connection.shutdown(socket.SHUT_RDWR)
    session.line.event_loop.call(session.line.end, close_codes.CLOSED)
    session.wait_for("ended")
    wait_until(lambda: not names("console-shell"), "the threads to end", 5)
    assert threading.active_count() <= before + 4  # those of the test's server


def names(start):
    return [thread.name for thread in threading.enumerate() if thread.name.startswith(start)]


def test_the_last_words_of_a_guest_are_drawn(shell, guest):
    """It ends while the browser is still far behind with drawing."""

    def play(channel, door):
        channel.sendall(NOISE_BYTES[: 2 * MAX_UNDRAWN_BYTES])
        return 3

    session = shell(guest(play))
    session.viewer.draws = False
    assert session.viewer.read(MAX_UNDRAWN_BYTES) == NOISE_BYTES[:MAX_UNDRAWN_BYTES]
    time.sleep(0.3)
    session.viewer.send(b"typed to nobody")
    session.viewer.tell(type="seen", bytes=MAX_UNDRAWN_BYTES)
    session.viewer.draws = True
    assert session.viewer.read(MAX_UNDRAWN_BYTES) == NOISE_BYTES[MAX_UNDRAWN_BYTES : 2 * MAX_UNDRAWN_BYTES]
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
    assert session.line.browser.unsent_size < 1000


def test_it_is_closed_from_outside(shell, guest, pump):
    session = shell(guest(echo))
    pump.call(session.line.end, close_codes.CLOSED.with_message("Your sign-in was ended."))
    assert session.viewer.ended() == (1008, "Your sign-in was ended.")
    assert session.viewer.says("ended")["message"] == "Your sign-in was ended."


def test_drawing_and_resizing_are_no_use(shell, guest):
    """A terminal that only answers by itself is idle."""
    session = shell(guest(flood), more={"idle": 0.5})
    end = time.monotonic() + 20
    viewer = session.viewer
    with suppress(WebSocketClosed):
        while time.monotonic() < end:
            viewer.receive()
    session.wait_for("ended")
    assert session.word == "unused"


def test_it_begins_while_being_closed(shell, guest, pump):
    """Closed between the hand-over and the first byte."""
    server = guest(echo)
    mine, other = console_client.socket_pair()
    target = SshTarget(server.host, server.port, "root", server.user_key)
    line = SshConsole(other, {"key": console_client.WEBSOCKET_KEY, "protocols": ["panel-shell"]}, target)
    pump.call(line.end, close_codes.CLOSED)
    pump.add(line)
    viewer = Terminal(mine, "panel-shell")
    assert viewer.hear_answer() == 101
    assert viewer.ended() == (1008, "The console was closed by the panel.")
    assert server.doors == []
