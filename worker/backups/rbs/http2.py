"""Requests on the HTTP/2 connection to which the server switches for backups and restores."""

import contextlib
import json
import ssl
import threading
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import ConnectionTerminated, DataReceived, Event, ResponseReceived, StreamEnded, StreamReset
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes

from worker.backups.rbs.errors import ServerFailed, expect_shape, make_refusal
from worker.backups.rbs.tls import describe_error

READ_BYTES = 256 * 1024
WINDOW_BYTES = 16 * 1024**2
"""Bytes that the server may send before they have been read here."""

OK = 200
EMPTY, BINARY, JSON = "application/x-www-form-urlencoded", "application/octet-stream", "application/json"


class Http2Connection:
    """One request at a time; threads wait for each other. After a failure of the connection it is unusable."""

    def __init__(self, connection: ssl.SSLSocket, received: bytes = b"") -> None:
        """`received` are bytes of HTTP/2 that were read already."""
        self.connection, self.lock = connection, threading.Lock()
        self.protocol = H2Connection(H2Configuration(client_side=True, header_encoding=None))
        with translate_errors("the connection"):
            self.protocol.initiate_connection()
            self.protocol.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: WINDOW_BYTES})
            self.protocol.increment_flow_control_window(WINDOW_BYTES)
            if received:
                self.protocol.receive_data(received)
            self.flush()

    def close(self) -> None:
        with contextlib.suppress(OSError, ProtocolError):
            self.protocol.close_connection()
            self.flush()
        self.connection.close()

    def get(self, path: str, **parameters: Any) -> bytes:
        return self.request("GET", path, parameters)

    def post(self, path: str, **parameters: Any) -> Any:
        """Call a function of the server; return what it returns."""
        answer = self.request("POST", path, parameters)
        with expect_shape(path):
            return json.loads(answer)["data"]

    def put(self, path: str, values: Mapping[str, Any]) -> None:
        self.request("PUT", path, {}, json.dumps(values, separators=(",", ":")).encode(), JSON)

    def upload(self, path: str, data: bytes, **parameters: Any) -> None:
        self.request("POST", path, parameters, data, BINARY)

    def request(
        self, method: str, path: str, parameters: Mapping[str, Any], body: bytes = b"", content_type: str = EMPTY
    ) -> bytes:
        """Return the body of the answer. Names of parameters have hyphens on the wire."""
        query = urlencode({name.replace("_", "-"): value for name, value in parameters.items()})
        headers = [
            (":method", method),
            (":scheme", "https"),
            (":authority", "localhost"),
            (":path", f"/{path}?{query}" if query else f"/{path}"),
            ("content-type", content_type),
        ]
        with self.lock, translate_errors(path):
            answer = Answer(self.protocol.get_next_available_stream_id())
            self.protocol.send_headers(answer.stream, headers, end_stream=not body)
            self.flush()
            self.send_body(answer, memoryview(body))
            while not answer.is_complete:
                self.receive(answer)
        if answer.status != OK:
            raise make_refusal(path, answer.status, bytes(answer.body))
        return bytes(answer.body)

    def send_body(self, answer: "Answer", body: memoryview) -> None:
        """Send the body as the server makes room for it; it may answer with an error before it has read everything."""
        while body and not answer.is_complete:
            size = min(self.protocol.local_flow_control_window(answer.stream), self.protocol.max_outbound_frame_size)
            if size <= 0:
                self.receive(answer)
                continue
            part, body = body[:size], body[size:]
            self.protocol.send_data(answer.stream, bytes(part), end_stream=not body)
            self.flush()

    def receive(self, answer: "Answer") -> None:
        data = self.connection.recv(READ_BYTES)
        if not data:
            raise ServerFailed("a request", "it closed the connection")
        for event in self.protocol.receive_data(data):
            answer.take(event)
            if isinstance(event, DataReceived) and event.flow_controlled_length:
                self.protocol.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        self.flush()

    def flush(self) -> None:
        if data := self.protocol.data_to_send():
            self.connection.sendall(data)


class Answer:
    """The answer to one request, as far as it was received."""

    def __init__(self, stream: int) -> None:
        self.stream, self.status, self.body, self.is_complete = stream, 0, bytearray(), False

    def take(self, event: Event) -> None:
        if isinstance(event, ConnectionTerminated):
            raise ServerFailed("a request", "it ended the connection")
        if getattr(event, "stream_id", None) != self.stream:
            return
        if isinstance(event, ResponseReceived):
            self.status = int(dict(event.headers)[b":status"])
        elif isinstance(event, DataReceived):
            self.body += event.data
        elif isinstance(event, StreamEnded):
            self.is_complete = True
        elif isinstance(event, StreamReset):
            raise ServerFailed("a request", "it ended the request")


@contextlib.contextmanager
def translate_errors(action: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ServerFailed(action, describe_error(error)) from error
    except ProtocolError as error:
        raise ServerFailed(action, "it does not speak HTTP/2 as expected") from error
