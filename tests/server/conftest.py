"""A web server around the application of app.py, and raw connections to it."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.support.raw_connection import Connection

ROOT = Path(__file__).parents[2]


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
