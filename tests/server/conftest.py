"""A web server around the application of app.py, and raw connections to it."""

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).parents[2]
CONTENT_LENGTH = re.compile(rb"\r\ncontent-length: (\d+)", re.IGNORECASE)


class Server:
    def __init__(self, **settings):
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
        self.address = self.listener.getsockname()
        number = self.listener.fileno()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.server.app", str(number)],
            pass_fds=[number],
            env={**os.environ, **settings},
            cwd=ROOT,
        )

    def connect(self, source=None):
        return Connection(socket.create_connection(self.address, 30, source_address=source and (source, 0)))

    def call(self, *parts):
        """Send a request on a connection of its own; return the answer's status and JSON body."""
        with self.connect() as connection:
            connection.send(*parts)
            status, _, body = connection.read_answer()
            return status, json.loads(body)

    def get(self, path):
        return self.call(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())

    def workers(self):
        return psutil.Process(self.process.pid).children()

    def stop(self):
        self.process.terminate()
        status = self.process.wait(60)
        self.listener.close()
        return status


class Connection:
    """A client's connection that sends bytes as they are and reads one answer after the other."""

    def __init__(self, connection):
        self.socket, self.buffer = connection, b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, *parts):
        for part in parts:
            self.socket.sendall(part)

    def more(self):
        data = self.socket.recv(1 << 18)
        if not data:
            raise EOFError(self.buffer)
        self.buffer += data

    def read_until(self, mark):
        while mark not in self.buffer:
            self.more()
        found, self.buffer = self.buffer.split(mark, 1)
        return found

    def read_answer(self, head_only=False):
        """The status, the head and the body of the next answer, which has a length."""
        head = self.read_until(b"\r\n\r\n")
        found = CONTENT_LENGTH.search(head)
        length = int(found[1]) if found and not head_only else 0
        while len(self.buffer) < length:
            self.more()
        body, self.buffer = self.buffer[:length], self.buffer[length:]
        return int(head.split(b" ")[1]), head, body

    def read_rest(self):
        """Everything until the server closes."""
        with contextlib.suppress(ConnectionError):
            while data := self.socket.recv(1 << 18):
                self.buffer += data
        return self.buffer

    def is_closed_within(self, seconds):
        self.socket.settimeout(seconds)
        try:
            while self.socket.recv(1 << 16):
                pass
        except TimeoutError:
            return False
        except ConnectionError:
            pass
        return True


@pytest.fixture(scope="module")
def server():
    made = Server()
    yield made
    assert made.stop() == 0


@pytest.fixture
def start_server():
    """Start a server with settings of its own."""
    made = []

    def make(**settings):
        made.append(Server(**settings))
        assert made[-1].get("/seen")[0] == 200
        return made[-1]

    yield make
    for one in made:
        if one.process.poll() is None:
            one.stop()
