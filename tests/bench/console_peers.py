"""The peers of the console process in benchmarks: a node's VNC server, a bare relay and reading browsers. Each runs in
its own process, so that they do not share an interpreter.

`python -m tests.bench.console_peers PART …` prints a line when the part is ready.
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
from tests.support.panel_commands import start_command

ROOT = Path(__file__).parents[2]
PASSWORD, NODE_PASSWORD = "onceonly", "nodepass"
BLOCK_BYTES = 65536

STREAM, ECHO = b"s", b"e"
"""First byte that a viewer sends: the machine streams data or echoes input. With any other byte it is idle."""


class BenchProcess:
    """Runs a process until the block ends. `first_line` is what it printed when it was ready."""

    def __init__(self, *arguments, module="tests.bench.console_peers", ready=None, **environment):
        self.module, self.arguments = module, [str(argument) for argument in arguments]
        self.command = [sys.executable, "-m", module, *self.arguments]
        self.ready, self.environment = ready, {**os.environ, **environment}

    def __enter__(self):
        if self.module == "panel.cli":
            self.process = start_command(self.arguments, self.environment, Path(os.devnull))
            return self.wait_until_ready()
        self.process = subprocess.Popen(
            self.command,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # the console process logs each opened and closed console
            cwd=ROOT,
            env=self.environment,
            text=True,
        )
        self.first_line = "" if self.ready else self.process.stdout.readline().strip()
        return self.wait_until_ready()

    def wait_until_ready(self):
        while self.ready and not self.ready():
            if self.process.poll() is not None:
                raise RuntimeError(f"{self.command} ended.")
            time.sleep(0.05)
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(30)


# --- parts


def run_node():
    server = vnc_server.VncServer(play_machine, NODE_PASSWORD)
    print(server.port, flush=True)
    threading.Event().wait()


def play_machine(connection):
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    order = connection.recv(1)
    picture = os.urandom(BLOCK_BYTES)
    while order == STREAM:
        connection.sendall(picture)
    while data := connection.recv(BLOCK_BYTES):
        if order == ECHO:
            connection.sendall(data)


def run_relay(port):
    """Run a minimal relay: two blocking threads for each connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        while True:
            client, _ = listener.accept()
            upstream = socket.create_connection(("127.0.0.1", int(port)))
            for one, other in ((client, upstream), (upstream, client)):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=copy, args=(one, other), daemon=True).start()


def copy(one, other):
    with contextlib.suppress(OSError):
        while data := one.recv(BLOCK_BYTES):
            other.sendall(data)
    with contextlib.suppress(OSError):
        other.shutdown(socket.SHUT_WR)


def run_readers(port, *secrets):
    """Run browsers that read as fast as possible."""
    viewers = [open_viewer(int(port), secret) for secret in secrets]
    poll, buffer = select.epoll(), bytearray(4 * BLOCK_BYTES)
    for viewer in viewers:
        viewer.send(STREAM)
        viewer.connection.setblocking(False)
        poll.register(viewer.connection, select.EPOLLIN)
    print("reading", flush=True)
    by_number = {viewer.connection.fileno(): viewer.connection for viewer in viewers}
    while True:
        for number, _ in poll.poll():
            by_number[number].recv_into(buffer)


# --- viewers


def open_viewer(port, secret):
    """Open the console of the session as a browser does. Return the client."""
    viewer = console_client.ConsoleClient(socket.create_connection(("127.0.0.1", port), 20), "binary")
    viewer.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    assert viewer.request(f"/vnc/?session={secret}") == 101
    assert viewer.sign_in(PASSWORD) is None
    return viewer


class RawViewer:
    """A viewer without WebSocket, for the relay. It sends and receives plain RFB."""

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
    {"node": run_node, "relay": run_relay, "readers": run_readers}[sys.argv[1]](*sys.argv[2:])
