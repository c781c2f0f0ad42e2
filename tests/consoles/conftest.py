"""An event loop and console streams on real TCP connections, with a client and a VNC server at the ends."""

import pytest

from consoles import close_codes
from consoles.event_loop import EventLoop
from consoles.vnc import VncConsole, VncTarget
from tests.consoles.console_session import PASSWORD, ConsoleSession
from tests.support import console_client, vnc_server


@pytest.fixture
def event_loop_options():
    """Options of the event loop, such as timeouts. A test can change them before it requests other fixtures."""
    return {}


@pytest.fixture
def event_loop(event_loop_options):
    event_loop = EventLoop(**{"close_timeout_seconds": 0.5, **event_loop_options})
    event_loop.start()
    yield event_loop
    event_loop.stop(close_codes.RESTARTING, 0.2)
    event_loop.join(5)
    assert not event_loop.is_alive()
    assert event_loop.registered.keys() <= {event_loop.wakeup_fd}, "a descriptor is still watched"


@pytest.fixture
def start_vnc_server():
    """Return a function that starts a VNC server."""
    servers = []

    def start(play, **options):
        servers.append(vnc_server.VncServer(play, **options))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


@pytest.fixture
def open_vnc_console(event_loop):
    """Return a function that opens a console of a VNC server and signs in."""
    connections = []

    def open_console(
        server,
        password=PASSWORD,
        node_password="nodepass",
        port=None,
        small=False,
        signs_in=True,
        ssh_jump=None,
        **options,
    ):
        client_socket, server_socket = console_client.socket_pair(small=small)
        viewer = console_client.ConsoleClient(client_socket)
        target = VncTarget(server.host, port or server.port, password, node_password, ssh_jump)
        handshake = {"key": console_client.WEBSOCKET_KEY, "protocols": ["binary"]}
        stream = VncConsole(server_socket, handshake, target, **options)
        session = ConsoleSession(stream, viewer)
        stream.prepare_upstream()
        event_loop.add_stream(stream)
        assert viewer.read_response() == 101
        if signs_in:
            assert viewer.sign_in(password) is None
            session.wait_for_event("opened")
        connections.append(client_socket)
        return session

    yield open_console
    for connection in connections:
        connection.close()
