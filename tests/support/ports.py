"""Free ports for servers of tests."""

import secrets
import socket
from contextlib import suppress


def find_free_port():
    """Return a port below the range of outgoing connections, so that no connection takes it before the server does."""
    while True:
        port = 20_000 + secrets.randbelow(12_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
