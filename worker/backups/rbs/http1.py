"""One HTTP/1.1 request on a connection: a call of the API, or the switch to the backup protocol."""

import ssl
from dataclasses import dataclass

import h11

from worker.backups.rbs.errors import ServerFailed, ServerUnanswered
from worker.backups.rbs.tls import describe_error

READ_BYTES = 64 * 1024
MAX_ANSWER_BYTES = 256 * 1024**2
"""Of the largest list of snapshots."""

SWITCHING_PROTOCOLS = 101


@dataclass(frozen=True)
class Answer:
    status: int
    body: bytes
    """After a switch of protocols the bytes that already belong to the new one."""


def send_request(
    connection: ssl.SSLSocket, method: str, target: str, headers: list[tuple[str, str]], body: bytes = b""
) -> Answer:
    """Send the only request of this connection and return the answer. Raises `ServerUnanswered` without
    one."""
    protocol = h11.Connection(h11.CLIENT)
    lengths = [("content-length", str(len(body)))] if body or method in ("POST", "PUT") else []
    try:
        request = h11.Request(method=method, target=target, headers=[*headers, *lengths])
        connection.sendall(protocol.send(request) or b"")
        if body:
            connection.sendall(protocol.send(h11.Data(body)) or b"")
        connection.sendall(protocol.send(h11.EndOfMessage()) or b"")
        return read_answer(connection, protocol)
    except OSError as error:
        raise ServerUnanswered("a request", describe_error(error)) from error
    except h11.RemoteProtocolError as error:
        raise ServerUnanswered("a request", "it does not speak HTTP, or ended the connection") from error


def read_answer(connection: ssl.SSLSocket, protocol: h11.Connection) -> Answer:
    status, body = 0, bytearray()
    while True:
        event = protocol.next_event()
        if event is h11.NEED_DATA:
            protocol.receive_data(connection.recv(READ_BYTES))
        elif isinstance(event, h11.InformationalResponse) and event.status_code == SWITCHING_PROTOCOLS:
            return Answer(event.status_code, protocol.trailing_data[0])
        elif isinstance(event, h11.Response):
            status = event.status_code
        elif isinstance(event, h11.Data):
            body += event.data
            if len(body) > MAX_ANSWER_BYTES:
                raise ServerFailed("a request", "its answer is too large")
        elif isinstance(event, h11.EndOfMessage):
            return Answer(status, bytes(body))
