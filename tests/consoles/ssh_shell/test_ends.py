"""Errors of shells, and how shells end."""

import socket
import threading
import time
from contextlib import suppress

from consoles import close_codes
from consoles.ssh import SshTarget
from consoles.ssh_shell import MAX_UNDRAWN_BYTES, SshConsole
from tests.consoles.ssh_shell.terminal import RANDOM_MEBIBYTE, TerminalClient, echo, flood
from tests.support import console_client
from tests.support.console_client import TEXT, WebSocketClosed
from tests.support.waiting import wait_until


def test_unreachable_ssh_server_is_reported(open_shell, start_ssh_guest):
    server = start_ssh_guest(echo)
    server.close()
    session = open_shell(server, waits_for_opened=False)
    message = "The instance does not respond to SSH. Check that it is running and that its port is open."
    assert session.viewer.wait_until_closed() == (1011, message)
    session.wait_for_event("ended")
    assert session.stream.close_reason.name == "unreachable"


def test_rejected_terminal_request_is_reported(open_shell, start_ssh_guest):
    session = open_shell(start_ssh_guest(echo, gives_terminals=False), waits_for_opened=False)
    assert session.viewer.wait_until_closed() == (1011, "The instance did not open a terminal.")


def test_server_without_ssh_protocol_is_reported(open_shell, start_ssh_guest, start_vnc_server):
    server = start_ssh_guest(echo)
    other = start_vnc_server(lambda connection: None)
    other.handle_connection = lambda connection: connection.close()
    server.close()
    session = open_shell(server, port=other.port, waits_for_opened=False)
    assert session.viewer.wait_until_closed() == (1011, "The SSH server of the instance closed the connection.")


def test_lost_guest_connection_ends_console(open_shell, start_ssh_guest):
    server = start_ssh_guest(echo)
    session = open_shell(server)
    server.transports[0].sock.close()
    server.transports[0].close()
    assert session.viewer.wait_until_closed() == (1011, "The connection to the instance was lost.")


def test_browser_disconnect_ends_threads_and_connections(open_shell, start_ssh_guest):
    before = threading.active_count()
    server = start_ssh_guest(echo)
    sessions = [open_shell(server) for _ in range(3)]
    for session in sessions:
        session.viewer.connection.close()
        session.wait_for_event("ended")
    wait_until(lambda: all(not transport.is_active() for transport in server.transports), "the guest's side to end")
    server.close()
    wait_until(lambda: threading.active_count() <= before + 1, "the threads to end")  # the server's own listens on


def test_guest_not_reading_input_leaves_no_threads(open_shell, start_ssh_guest):
    """The guest neither reads nor prints, and the pasted input is larger than its buffers."""
    before = threading.active_count()
    session = open_shell(start_ssh_guest(lambda channel, interface: time.sleep(30)))
    for _ in range(24):
        session.viewer.send(RANDOM_MEBIBYTE[:131072])
    wait_until(lambda: session.stream.upstream_queue, "the guest's buffers to fill up")
    session.viewer.connection.shutdown(socket.SHUT_RDWR)
    session.stream.event_loop.call_soon(session.stream.close, close_codes.CLOSED)
    session.wait_for_event("ended")
    wait_until(lambda: not list_thread_names("console-shell"), "the threads to end")
    assert threading.active_count() <= before + 4  # those of the test's server


def list_thread_names(start):
    return [thread.name for thread in threading.enumerate() if thread.name.startswith(start)]


def test_remaining_output_is_sent_after_exit(open_shell, start_ssh_guest):
    """The shell exits while the browser has not drawn all output."""

    def play(channel, interface):
        channel.sendall(RANDOM_MEBIBYTE[: 2 * MAX_UNDRAWN_BYTES])
        return 3

    session = open_shell(start_ssh_guest(play))
    session.viewer.acknowledges_output = False
    assert session.viewer.read(MAX_UNDRAWN_BYTES) == RANDOM_MEBIBYTE[:MAX_UNDRAWN_BYTES]
    time.sleep(0.3)
    session.viewer.send(b"typed after exit")
    session.viewer.send_control(type="seen", bytes=MAX_UNDRAWN_BYTES)
    session.viewer.acknowledges_output = True
    assert session.viewer.read(MAX_UNDRAWN_BYTES) == RANDOM_MEBIBYTE[MAX_UNDRAWN_BYTES : 2 * MAX_UNDRAWN_BYTES]
    assert session.viewer.wait_until_closed() == (1000, "The shell ended.")
    assert session.viewer.wait_for_message("exit")["code"] == 3


def test_control_ping_is_answered_by_panel(open_shell, start_ssh_guest):
    """The panel answers, also while the guest does not read."""
    session = open_shell(start_ssh_guest(lambda channel, interface: time.sleep(30)))
    session.viewer.send(b'{"type":"ping","at":12.5}', TEXT)
    assert session.viewer.wait_for_message("pong") == {"type": "pong", "at": 12.5}


def test_unread_pongs_are_bounded(open_shell, start_ssh_guest):
    """A client that does not read gets no more answers. Oversized pings are ignored."""
    session = open_shell(start_ssh_guest(echo), small=True)
    session.viewer.send(b'{"type":"ping","at":"' + b"x" * 1000 + b'"}', TEXT)
    session.viewer.send(b'{"type":"ping","at":1}', TEXT)
    assert session.viewer.wait_for_message("pong")["at"] == 1
    for number in range(20000):
        session.viewer.send(b'{"type":"ping","at":%d,"and":"%s"}' % (number, b"x" * 60), TEXT)
    assert session.stream.browser.has_unsent
    assert session.stream.browser.unsent_size < 1000


def test_panel_closes_shell_with_reason(open_shell, start_ssh_guest, event_loop):
    session = open_shell(start_ssh_guest(echo))
    event_loop.call_soon(session.stream.close, close_codes.CLOSED.with_message("Your sign-in was ended."))
    assert session.viewer.wait_until_closed() == (1008, "Your sign-in was ended.")
    assert session.viewer.wait_for_message("ended")["message"] == "Your sign-in was ended."


def test_acknowledgements_do_not_count_as_use(open_shell, start_ssh_guest):
    """A shell whose terminal only acknowledges output is unused."""
    session = open_shell(start_ssh_guest(flood), options={"idle_timeout_seconds": 0.5})
    end = time.monotonic() + 20
    viewer = session.viewer
    with suppress(WebSocketClosed):
        while time.monotonic() < end:
            viewer.receive()
    session.wait_for_event("ended")
    assert session.stream.close_reason.name == "unused"


def test_stream_closed_before_start_contacts_no_guest(open_shell, start_ssh_guest, event_loop):
    """The stream is closed between fd passing and its start."""
    server = start_ssh_guest(echo)
    client_socket, server_socket = console_client.socket_pair()
    target = SshTarget(server.host, server.port, "root", server.user_key)
    stream = SshConsole(server_socket, {"key": console_client.WEBSOCKET_KEY, "protocols": ["panel-shell"]}, target)
    event_loop.call_soon(stream.close, close_codes.CLOSED)
    event_loop.add_stream(stream)
    viewer = TerminalClient(client_socket, "panel-shell")
    assert viewer.read_response() == 101
    assert viewer.wait_until_closed() == (1008, "The console was closed by the panel.")
    assert server.interfaces == []
