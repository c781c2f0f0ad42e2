"""HTTPS connections to the very address that the URL policy checked: the name is not resolved again."""

import socket
import ssl
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from http.client import HTTPException, HTTPResponse

import certifi
from urllib3.connection import HTTPSConnection
from urllib3.util import connection as sockets
from urllib3.util import ssl_wrap_socket

from panel.services.webhooks.url_policy import IpAddress, Target

CONNECT_TIMEOUT_SECONDS = 5.0
"""Time limit for a connection (DLV-30)."""

MAX_INTERIM_ANSWERS = 100


@cache
def create_ssl_context(pem: str = "") -> ssl.SSLContext:
    """Return a context that verifies certificates against the usual authorities and those in `pem`. It is shared by
    all connections: reading the authorities takes 20 ms."""
    context = ssl.create_default_context(cafile=certifi.where())
    if pem:
        context.load_verify_locations(cadata=pem)
    return context


class FinalResponse(HTTPResponse):
    """The final answer to a request: interim ones (1xx) before it are skipped, as RFC 9110 15.2 requires."""

    def begin(self) -> None:
        super().begin()
        for _ in range(MAX_INTERIM_ANSWERS):
            if not self.is_interim():
                return
            self.headers = self.msg = None  # type: ignore[assignment]  # so that begin() reads the next answer
            super().begin()
        if self.is_interim():
            raise HTTPException("There were too many interim answers.")

    def is_interim(self) -> bool:
        """Return whether another answer follows. After 101 the connection no longer speaks HTTP."""
        return 100 <= self.status < 200 and self.status != 101


class PinnedConnection(HTTPSConnection):
    """Connects to one of the given addresses without resolving the name. The certificate has to be for the name."""

    response_class = FinalResponse

    def __init__(
        self,
        target: Target,
        addresses: Sequence[IpAddress],
        context: ssl.SSLContext,
        connect_timeout: float = CONNECT_TIMEOUT_SECONDS,
    ) -> None:
        super().__init__(target.host, target.port, timeout=connect_timeout, ssl_context=context)
        self.found, self.connect_timeout = addresses, connect_timeout
        self.switch: socket.socket | None = None

    def connect(self) -> None:
        self.sock = self.open_socket()
        self.switch = self.sock.dup()  # works during the handshake too, when the socket is replaced
        self.sock = ssl_wrap_socket(self.sock, server_hostname=self.host, ssl_context=self.ssl_context)

    def open_socket(self) -> socket.socket:
        """Return a connection to the first address that answers."""
        deadline = time.monotonic() + self.connect_timeout
        errors: list[OSError] = []
        for ip in self.found:
            timeout = max(0.1, deadline - time.monotonic())
            try:
                return sockets.create_connection((str(ip), self.port), timeout, socket_options=self.socket_options)
            except OSError as error:
                errors.append(error)
        raise errors[0]

    def post(self, path: str, headers: Mapping[str, str], payload: bytes, method: str = "POST") -> FinalResponse:
        """Send a request in one write and return the final answer; its body is still to be read.

        This takes half the CPU time of urllib3's `request`. The caller closes the connection if the answer requires it
        (`will_close`).
        """
        name = f"[{self.host}]" if ":" in self.host else self.host
        host = name if self.port == self.default_port else f"{name}:{self.port}"
        fields = {"Host": host, "Content-Length": len(payload), **headers}
        lines = [f"{method} {path} HTTP/1.1", *(f"{field}: {value}" for field, value in fields.items()), "\r\n"]
        self.sock.sendall("\r\n".join(lines).encode("ascii") + payload)
        answer = FinalResponse(self.sock, method=method)
        try:
            answer.begin()
        except BaseException:
            answer.close()
            raise
        return answer

    def cut(self) -> None:
        if self.switch:
            with suppress(OSError):
                self.switch.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        super().close()
        if self.switch:
            self.switch.close()
