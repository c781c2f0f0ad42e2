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
        listener_fd = self.listener.fileno()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.server.app", str(listener_fd)],
            pass_fds=[listener_fd],
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

    def list_workers(self):
        return psutil.Process(self.process.pid).children()

    def stop(self):
        self.process.terminate()
        status = self.process.wait(60)
        self.listener.close()
        return status


class Connection:
    """A client's connection that sends raw bytes and reads one answer after the other."""

    def __init__(self, connection):
        self.socket, self.buffer = connection, b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, *parts):
        for part in parts:
            self.socket.sendall(part)

    def receive(self):
        data = self.socket.recv(1 << 18)
        if not data:
            raise EOFError(self.buffer)
        self.buffer += data

    def read_until(self, mark):
        while mark not in self.buffer:
            self.receive()
        content, self.buffer = self.buffer.split(mark, 1)
        return content

    def read_answer(self, head_only=False):
        """Return the status, the head and the body of the next answer. The body has a Content-Length."""
        head = self.read_until(b"\r\n\r\n")
        match = CONTENT_LENGTH.search(head)
        length = int(match[1]) if match and not head_only else 0
        while len(self.buffer) < length:
            self.receive()
        body, self.buffer = self.buffer[:length], self.buffer[length:]
        return int(head.split(b" ")[1]), head, body

    def read_rest(self):
        """Return everything until the server closes the connection."""
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
    running_server = Server()
    yield running_server
    assert running_server.stop() == 0


@pytest.fixture
def start_server():
    """Return a function that starts a server with its own settings: `start_server(HEAD_SECONDS="2")`."""
    servers = []

    def start(**settings):
        servers.append(Server(**settings))
        assert servers[-1].get("/seen")[0] == 200
        return servers[-1]

    yield start
    for running_server in servers:
        if running_server.process.poll() is None:
            running_server.stop()
