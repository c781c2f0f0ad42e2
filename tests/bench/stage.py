"""What stands around the console process while it is measured, each in a process of its own, so that nobody waits for
the interpreter of another: a node's VNC server, a bare relay, readers.

`python -m tests.bench.stage PART …` prints a line when the part is ready.
"""

import contextlib
import os
import select
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

from consoles.rfb import encrypt_challenge
from tests.support import console_client, vnc_server

ROOT = Path(__file__).parents[2]
PASSWORD, NODE_PASSWORD = "onceonly", "nodepass"
BLOCK = 65536

STREAM, ECHO = b"s", b"e"
"""What a viewer tells the node to do, as its first byte; with any other the node waits."""


class BenchProcess:
    """Runs a part until the block ends; `said` is what it printed when it was ready."""

    def __init__(self, *words, module="tests.bench.stage", ready=None, **environment):
        self.command = [sys.executable, "-m", module, *map(str, words)]
        self.ready, self.environment = ready, {**os.environ, **environment}

    def __enter__(self):
        self.process = subprocess.Popen(
            self.command,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # each console says when it opens and ends
            cwd=ROOT,
            env=self.environment,
            text=True,
        )
        self.said = "" if self.ready else self.process.stdout.readline().strip()
        while self.ready and not self.ready():
            if self.process.poll() is not None:
                raise RuntimeError(f"{self.command} ended.")
            time.sleep(0.05)
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(30)


# --- parts


def node():
    server = vnc_server.VncServer(play_machine, NODE_PASSWORD)
    print(server.port, flush=True)
    threading.Event().wait()


def play_machine(connection):
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    order = connection.recv(1)
    picture = os.urandom(BLOCK)
    while order == STREAM:
        connection.sendall(picture)
    while data := connection.recv(BLOCK):
        if order == ECHO:
            connection.sendall(data)


def relay(port):
    """The least that carries a screen: two threads a connection, which wait."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        while True:
            near, _ = listener.accept()
            far = socket.create_connection(("127.0.0.1", int(port)))
            for one, other in ((near, far), (far, near)):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=copy, args=(one, other), daemon=True).start()


def copy(one, other):
    with contextlib.suppress(OSError):
        while data := one.recv(BLOCK):
            other.sendall(data)
    with contextlib.suppress(OSError):
        other.shutdown(socket.SHUT_WR)


def readers(port, *secrets):
    """Browsers that take whatever comes, as fast as they can."""
    viewers = [open_viewer(int(port), secret) for secret in secrets]
    poll, room = select.epoll(), bytearray(4 * BLOCK)
    for one in viewers:
        one.send(STREAM)
        one.connection.setblocking(False)
        poll.register(one.connection, select.EPOLLIN)
    print("reading", flush=True)
    by_number = {one.connection.fileno(): one.connection for one in viewers}
    while True:
        for number, _ in poll.poll():
            by_number[number].recv_into(room)


# --- viewers


def open_viewer(port, secret):
    """A browser before the screen of that session."""
    made = console_client.ConsoleClient(socket.create_connection(("127.0.0.1", port), 20), "binary")
    made.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    assert made.request(f"/vnc/?session={secret}") == 101
    assert made.sign_in(PASSWORD) is None
    return made


class RawViewer:
    """A viewer without a WebSocket, at the relay: what it sends and gets is RFB as it is."""

    def __init__(self, port):
        self.connection = socket.create_connection(("127.0.0.1", port), 20)
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        assert vnc_server.read_exactly(self.connection, 12) == b"RFB 003.008\n"
        self.connection.sendall(b"RFB 003.008\n")
        (count,) = vnc_server.read_exactly(self.connection, 1)
        vnc_server.read_exactly(self.connection, count)
        self.connection.sendall(b"\2")
        self.connection.sendall(encrypt_challenge(NODE_PASSWORD, vnc_server.read_exactly(self.connection, 16)))
        assert vnc_server.read_exactly(self.connection, 4) == b"\0\0\0\0"
        self.connection.sendall(b"\1")

    def send(self, data):
        self.connection.sendall(self.frame(console_client.BINARY, data))

    def frame(self, _, data):
        return data


if __name__ == "__main__":
    {"node": node, "relay": relay, "readers": readers}[sys.argv[1]](*sys.argv[2:])
