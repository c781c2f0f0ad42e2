"""Shells from a browser's WebSocket through the event loop and paramiko to an SSH server."""

import json
import random
import threading
import time

import pytest

from consoles.ssh import SshTarget
from consoles.ssh_shell import SshConsole
from tests.consoles.conftest import ConsoleSession
from tests.support import console_client
from tests.support import ssh_guest as guests
from tests.support.console_client import TEXT

RANDOM_MEBIBYTE = random.Random(5).randbytes(1 << 20)


class TerminalClient(console_client.ConsoleClient):
    """The page's terminal. Collects output in `stream` and control messages in `messages`, and acknowledges output if
    `acknowledges_output`."""

    def __init__(self, connection, protocol):
        super().__init__(connection, protocol)
        self.messages, self.acknowledges_output = [], True

    def receive(self):
        opcode, payload = super().receive()
        if opcode == TEXT:
            self.messages.append(json.loads(payload))
            return opcode, b""
        if self.acknowledges_output and self.protocol:
            self.send_control(type="seen", bytes=len(payload))
        return opcode, payload

    def send_control(self, **message):
        self.send(json.dumps(message).encode(), TEXT)

    def wait_for_message(self, kind):
        """Return the first control message of this type."""
        while not (messages := [message for message in self.messages if message["type"] == kind]):
            self.receive()
        return messages[0]


@pytest.fixture
def start_ssh_guest():
    """Return a function that starts the SSH server of a guest."""
    servers = []

    def start(play, *host_keys, **options):
        servers.append(guests.SshGuest(play, *host_keys, **options))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


@pytest.fixture
def open_shell(event_loop):
    """Return a function that opens a shell of an SSH server."""
    connections = []

    def open_console(server, protocol="panel-shell", small=False, waits_for_opened=True, options=None, **target):
        client_socket, server_socket = console_client.socket_pair(small=small)
        viewer = TerminalClient(client_socket, protocol)
        facts = {"host": server.host, "port": server.port, "user": "root", "private_key": server.user_key, **target}
        handshake = {"key": console_client.WEBSOCKET_KEY, "protocols": [protocol] if protocol else []}
        stream = SshConsole(server_socket, handshake, SshTarget(**facts), **options or {})
        session = ConsoleSession(stream, viewer)
        event_loop.add_stream(stream)
        assert viewer.read_response() == 101
        connections.append(client_socket)
        if waits_for_opened:
            session.wait_for_event("opened")
        return session

    yield open_console
    for connection in connections:
        connection.close()


def echo(channel, interface):
    while (data := channel.recv(65536)) and data != b"exit\r":
        channel.sendall(data)
    return 7


def flood(channel, interface):
    """Print lines as `yes` does until Ctrl-C, then print ^C."""
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
