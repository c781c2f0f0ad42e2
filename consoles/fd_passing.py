"""The web's side of a console: is this a WebSocket of ours, and the connection given away to the console process.

Order of the view: `ensure_websocket_handshake` (400, nothing is spent), `ensure_same_origin` (403), redeem the session,
then `pass_socket`; when that raises, release the session. The view returns `SocketPassed()`.
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

IPC_TIMEOUT_SECONDS = 3
"""Seconds the console process has for each step. It answers in about a millisecond."""


def ensure_websocket_handshake(environ):
    """Returns when the request opens a WebSocket (RFC 6455 §4.2.1). Else raises a 400 that says what is missing."""
    header = lambda name: environ.get(f"HTTP_{name}", "").strip()  # noqa: E731
    connection = [word.strip().lower() for word in header("CONNECTION").split(",")]
    demands = {
        "a GET request": environ["REQUEST_METHOD"] == "GET",
        "HTTP/1.1": environ.get("SERVER_PROTOCOL") == "HTTP/1.1",
        "the header Upgrade: websocket": header("UPGRADE").lower() == "websocket",
        "the header Connection: Upgrade": "upgrade" in connection,
        "the header Sec-WebSocket-Version: 13": header("SEC_WEBSOCKET_VERSION") == "13",
        "the header Sec-WebSocket-Key with 16 bytes in base64": is_key(header("SEC_WEBSOCKET_KEY")),
    }
    for demand, met in demands.items():
        if not met:
            raise Problem(f"This address is for WebSocket connections only: {demand} is missing.", status=400)


def is_key(text):
    try:
        return len(base64.b64decode(text, validate=True)) == 16
    except (binascii.Error, ValueError):
        return False


def ensure_same_origin(environ, public_url):
    """Returns when a page of the panel asks, or a program, which names no origin. Browsers send a page's cookies with
    the WebSockets of any other page, so a foreign page is a 403."""
    origin = environ.get("HTTP_ORIGIN")
    if origin is None:
        return
    scheme, _, host = origin.lower().partition("://")
    own = (environ.get("HTTP_HOST", "").lower(), urlsplit(public_url).netloc.lower())
    if scheme not in ("http", "https") or host not in own:
        raise Forbidden("Consoles open only from pages of the panel itself.")


def read_handshake(environ):
    """What the console process needs to answer the client."""
    protocols = environ.get("HTTP_SEC_WEBSOCKET_PROTOCOL", "").split(",")
    return {
        "key": environ["HTTP_SEC_WEBSOCKET_KEY"].strip(),
        "protocols": [protocol.strip() for protocol in protocols if protocol.strip()],
    }


def pass_socket(environ, path, note):
    """Gives the client's connection to the console process at `path`. `note` says what to do with it, as
    process.py describes it.

    After success the connection is no longer this server's. Otherwise it still is, nobody else touches it, and this
    raises: `TooMany` when a limit of the note is reached, else `Unavailable`.
    """
    connection = get_client_socket(environ)
    try:
        with ipc.connect(path, IPC_TIMEOUT_SECONDS) as line:
            order = {"do": "open", "handshake": read_handshake(environ), **note}
            ipc.send(line, order, connection.fileno())
            answer = ipc.receive(line)
            if answer["ok"]:
                detach_from_server(connection)
                ipc.send(line, {"do": "go"})  # only now it answers the client
                return
    except (OSError, ValueError) as error:
        raise Unavailable("Consoles are not available at the moment. Try again in a minute.") from error
    if answer["reason"] == "busy":
        raise TooMany(answer["message"], seconds=30, reason="console_limit")
    raise Unavailable(answer["message"])


def get_client_socket(environ):
    connection = environ.get("panel.connection") or environ.get("werkzeug.socket")
    if connection is None:
        raise Unavailable("This web server cannot carry consoles: run the panel with `panel web`.")
    if isinstance(connection, ssl.SSLSocket):
        raise Unavailable("This web server cannot carry consoles: TLS must end in front of the panel.")
    return connection


def detach_from_server(connection):
    """The server does nothing more with the connection. `panel web` forgets it. Werkzeug keeps its socket object, but
    behind the descriptor is a dead end from now on: what it shuts down, drains and closes is not the client's."""
    if not isinstance(connection, socket.socket):
        connection.release()
        return
    dead, other = socket.socketpair()
    with dead, other:
        os.dup2(dead.fileno(), connection.fileno(), inheritable=False)


class SocketPassed(Response):
    """The answer of a view whose connection went to the console process: nothing is written, the server forgets it."""

    default_status = 101

    def __call__(self, environ, start_response):
        if "werkzeug.socket" in environ:
            raise ConnectionAbortedError("The connection was handed over.")  # it closes without a word
        return super().__call__(environ, start_response)
