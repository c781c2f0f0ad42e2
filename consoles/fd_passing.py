"""The web's side of a console: checks that the request opens a WebSocket, then passes the connection to the console
server.

Order of the view: `ensure_websocket_handshake` (400, the session is not used up), `ensure_same_origin` (403), redeem
the session, then `pass_socket`; when that raises, release the session. The view returns `SocketPassed()`.
"""

import base64
import binascii
import os
import socket
import ssl
from urllib.parse import urlsplit

from flask import Response

from consoles import ipc
from panel.core.errors import Forbidden, Problem, TooMany, Unavailable
from panel.core.messages import message

IPC_TIMEOUT_SECONDS = 3
"""Seconds the console server has for each step. It normally answers within a millisecond."""


def ensure_websocket_handshake(environ):
    """Raise a 400 that names what is missing, unless the request opens a WebSocket (RFC 6455 §4.2.1)."""
    header = lambda name: environ.get(f"HTTP_{name}", "").strip()  # noqa: E731
    connection = [token.strip().lower() for token in header("CONNECTION").split(",")]
    requirements = {
        "a GET request": environ["REQUEST_METHOD"] == "GET",
        "HTTP/1.1": environ.get("SERVER_PROTOCOL") == "HTTP/1.1",
        "the header Upgrade: websocket": header("UPGRADE").lower() == "websocket",
        "the header Connection: Upgrade": "upgrade" in connection,
        "the header Sec-WebSocket-Version: 13": header("SEC_WEBSOCKET_VERSION") == "13",
        "the header Sec-WebSocket-Key with 16 bytes in base64": is_websocket_key(header("SEC_WEBSOCKET_KEY")),
    }
    for requirement, is_met in requirements.items():
        if not is_met:
            raise Problem(
                message(
                    "This address is for WebSocket connections only: {requirement} is missing.", requirement=requirement
                ),
                status=400,
            )


def is_websocket_key(text):
    try:
        return len(base64.b64decode(text, validate=True)) == 16
    except (binascii.Error, ValueError):
        return False


def ensure_same_origin(environ, public_url):
    """Raise `Forbidden` when a page of another site opens the WebSocket: browsers send the panel's cookies with it.
    Programs send no Origin header and pass."""
    origin = environ.get("HTTP_ORIGIN")
    if origin is None:
        return
    scheme, _, host = origin.lower().partition("://")
    own = (environ.get("HTTP_HOST", "").lower(), urlsplit(public_url).netloc.lower())
    if scheme not in ("http", "https") or host not in own:
        raise Forbidden(message("Consoles open only from pages of the panel itself."))


def read_handshake(environ):
    """Return what the console server needs to answer the client: `key` and `protocols`."""
    protocols = environ.get("HTTP_SEC_WEBSOCKET_PROTOCOL", "").split(",")
    return {
        "key": environ["HTTP_SEC_WEBSOCKET_KEY"].strip(),
        "protocols": [protocol.strip() for protocol in protocols if protocol.strip()],
    }


def pass_socket(environ, path, note):
    """Pass the client's WebSocket to the console server at `path`. `note` describes the console, see server.py."""
    get_client_socket(environ)
    pass_connection(environ, path, {"command": "open", "handshake": read_handshake(environ), **note})


def pass_connection(environ, path, command):
    """Pass the client's connection to the console server at `path`, with this command.

    After success the connection is no longer this server's. Otherwise it still is, no other process uses it, and this
    raises `TooMany` when a limit is reached, else `Unavailable`.
    """
    connection = get_client_socket(environ)
    try:
        with ipc.connect(path, IPC_TIMEOUT_SECONDS) as ipc_connection:
            ipc.send(ipc_connection, command, connection.fileno())
            answer = ipc.receive(ipc_connection)
            if answer["ok"]:
                detach_from_server(connection)
                ipc.send(ipc_connection, {"command": "start"})  # the console server answers the client only after this
                return
    except (OSError, ValueError) as error:
        raise Unavailable(message("Consoles are not available at the moment. Try again in a minute.")) from error
    if answer["reason"] == "busy":
        raise TooMany(answer["message"], seconds=30, reason="console_limit")
    raise Unavailable(answer["message"])


def get_client_socket(environ):
    connection = environ.get("panel.connection") or environ.get("werkzeug.socket")
    if connection is None:
        raise Unavailable(message("This web server cannot carry consoles: run the panel with `panel web`."))
    if isinstance(connection, ssl.SSLSocket):
        raise Unavailable(message("This web server cannot carry consoles: TLS must end in front of the panel."))
    return connection


def detach_from_server(connection):
    """Detach the connection from the web server. `panel web` forgets it. Werkzeug keeps its socket object, so a dead
    socket is put over its descriptor: Werkzeug's later shutdown and close do not reach the client."""
    if not isinstance(connection, socket.socket):
        connection.release()
        return
    dead, other = socket.socketpair()
    with dead, other:
        os.dup2(dead.fileno(), connection.fileno(), inheritable=False)


class SocketPassed(Response):
    """The response of a view whose connection went to the console server: nothing is written to the client."""

    default_status = 101

    def __call__(self, environ, start_response):
        if "werkzeug.socket" in environ:
            raise ConnectionAbortedError("The connection was handed over.")  # Werkzeug then sends no response
        return super().__call__(environ, start_response)
