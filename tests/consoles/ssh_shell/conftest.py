"""Shells, from a browser's WebSocket through the pump and paramiko to an SSH server."""

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

NOISE_BYTES = random.Random(5).randbytes(1 << 20)


class Terminal(console_client.ConsoleClient):
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
        made.append(guests.SshGuest(play, *host_keys, **options))
        return made[-1]

    yield make
    for server in made:
        server.close()


@pytest.fixture
def shell(pump):
    opened = []

    def make(server, protocol="panel-shell", small=False, opens=True, more=None, **target):
        mine, other = console_client.socket_pair(small=small)
        viewer = Terminal(mine, protocol)
        facts = {"host": server.host, "port": server.port, "user": "root", "private_key": server.user_key, **target}
        protocols = [protocol] if protocol else []
        line = SshConsole(
            other, {"key": console_client.WEBSOCKET_KEY, "protocols": protocols}, SshTarget(**facts), **more or {}
        )
        session = ConsoleSession(line, viewer)
        pump.add(line)
        assert viewer.hear_answer() == 101
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
