"""Handing a WebSocket's connection over to another process."""

import asyncio
import logging
import socket

import uvicorn

from panel.server.connection_limits import ConnectionLimits
from panel.server.protocol import build_protocol_factory
from panel.server.wsgi import ThreadedWsgi

HANDSHAKE = b"GET /vnc/ HTTP/1.1\r\nHost: panel\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"


def release_connection(environ, start_response):
    """Do what a view does after the console server has taken the socket."""
    environ["panel.connection"].release()
    start_response("101 Switching Protocols", [])
    return []


async def request_upgrade():
    """Return what the client receives from the web server."""
    application = ThreadedWsgi(release_connection, threads=1, body_max_bytes=0)
    config = uvicorn.Config(
        application, http=build_protocol_factory(ConnectionLimits()), lifespan="off", log_config=None
    )
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        serving = asyncio.create_task(server.serve([listener]))
        reader, writer = await asyncio.open_connection(*listener.getsockname())
        writer.write(HANDSHAKE)
        try:
            return await reader.read()
        finally:
            writer.close()
            server.should_exit = True
            await serving


def test_handed_over_connection_is_silent(caplog):
    with caplog.at_level(logging.WARNING):
        assert asyncio.run(request_upgrade()) == b""
    assert caplog.messages == []
