"""Shells from a browser's WebSocket through the event loop and paramiko to an SSH server."""

import pytest

from consoles.ssh import SshTarget
from consoles.ssh_shell import SshConsole
from tests.consoles.console_session import ConsoleSession
from tests.consoles.ssh_shell.terminal import TerminalClient
from tests.support import console_client
from tests.support import ssh_guest as guests


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
