"""The connection to one receiver, reused for several deliveries.

urllib3 does TLS and http.client reads answers. This module checks the address (`url_policy`) and enforces time limits.
"""

import ssl
import time
from collections.abc import Mapping
from contextlib import suppress
from http.client import HTTPException, HTTPResponse

from urllib3.exceptions import HTTPError

from panel.core.messages import get_message, message
from panel.services.webhooks.pinned_connection import CONNECT_TIMEOUT_SECONDS, PinnedConnection, create_ssl_context
from panel.services.webhooks.url_policy import UrlRefused, resolve_target

__all__ = ["ReceiverConnection", "create_ssl_context"]

ANSWER_TIMEOUT_SECONDS, ATTEMPT_TIMEOUT_SECONDS = 20.0, 30.0
"""Seconds for one answer, and for an attempt as a whole (DLV-31, DLV-32)."""

MAX_ANSWER_BYTES = 65536
"""Bytes of an answer that are read."""

ATTEMPT_TIMEOUT_MESSAGE = message("The attempt was cut off because it took longer than {seconds:.0f} seconds.")


class AttemptFailed(Exception):
    """The receiver did not answer. The message is a sentence for the customer."""


class ReceiverConnection:
    """Posts to one URL. One thread uses it; the dispatcher's thread calls `enforce_deadline`."""

    def __init__(
        self,
        url: str,
        ssl_context: ssl.SSLContext,
        *,
        method: str = "POST",
        connect_timeout: float = CONNECT_TIMEOUT_SECONDS,
        answer_timeout: float = ANSWER_TIMEOUT_SECONDS,
    ) -> None:
        self.url, self.ssl_context, self.method = url, ssl_context, method
        self.connect_timeout, self.answer_timeout = connect_timeout, answer_timeout
        self.attempt_timeout = max(ATTEMPT_TIMEOUT_SECONDS, connect_timeout + answer_timeout)
        self.connection: PinnedConnection | None = None
        self.began_at = self.deadline_at = float("inf")

    def post(self, payload: bytes, headers: Mapping[str, str]) -> tuple[int, bytes]:
        """Return the status and the beginning of the answer's body. Raise AttemptFailed when there is no answer.

        Errors while the body is read are ignored, because only the status decides.
        """
        self.began_at = time.monotonic()
        self.deadline_at = self.began_at + self.attempt_timeout
        try:
            self.connect()
            answer = self.send(payload, headers)
            return answer.status, self.read_body(answer)
        except AttemptFailed:
            self.close()
            raise
        finally:
            self.began_at = self.deadline_at = float("inf")

    def connect(self) -> None:
        """Connect, unless still connected, to an address that the URL policy has just permitted."""
        if self.connection and self.connection.is_connected:
            return
        self.close()
        try:
            target, addresses = resolve_target(self.url)
            connection = PinnedConnection(target, addresses, self.ssl_context, self.connect_timeout)
            self.path, self.connection = target.path, connection
            connection.connect()
            connection.sock.settimeout(self.answer_timeout)
        except UrlRefused as refusal:
            raise AttemptFailed(get_message(refusal)) from None
        except (OSError, HTTPError, ValueError) as error:
            raise AttemptFailed(
                self.describe_error(
                    error,
                    message(
                        "The receiver could not be reached within {seconds:.0f} seconds.",
                        seconds=self.connect_timeout,
                    ),
                )
            ) from error

    def send(self, payload: bytes, headers: Mapping[str, str]) -> HTTPResponse:
        assert self.connection  # `connect` made it
        try:
            answer = self.connection.post(self.path, headers, payload, self.method)
        except (OSError, HTTPError, HTTPException, ValueError) as error:
            raise AttemptFailed(
                self.describe_error(
                    error,
                    message(
                        "The receiver did not answer within {seconds:.0f} seconds.",
                        seconds=self.answer_timeout,
                    ),
                )
            ) from error
        if time.monotonic() >= self.deadline_at:  # cut off within the headers, which looks like their end
            raise AttemptFailed(ATTEMPT_TIMEOUT_MESSAGE.format(seconds=self.attempt_timeout))
        return answer

    def read_body(self, answer: HTTPResponse) -> bytes:
        """Return the beginning of the body. Close the connection unless it can be used again."""
        body, chunk, is_complete = b"", b"", False
        with suppress(OSError, HTTPException, ValueError):
            while len(body) < MAX_ANSWER_BYTES and (chunk := answer.read1(MAX_ANSWER_BYTES - len(body))):
                body += chunk
            is_complete = not chunk and not answer.length
        answer.close()
        if answer.will_close or not is_complete:
            self.close()
        return body

    def describe_error(self, error: Exception, timeout_message: str) -> str:
        """Return a sentence for the customer. `timeout_message` is the one for a timeout."""
        cause = error.__context__ if isinstance(error, HTTPError) and error.__context__ else error
        if time.monotonic() >= self.deadline_at:
            return ATTEMPT_TIMEOUT_MESSAGE.format(seconds=self.attempt_timeout)
        if isinstance(cause, TimeoutError):
            return timeout_message
        if isinstance(cause, ssl.SSLCertVerificationError):
            return message("The receiver's certificate is not valid: {detail}.", detail=cause.verify_message)
        if isinstance(cause, ssl.SSLError):
            return message("The TLS connection to the receiver failed: {detail}.", detail=cause.reason or cause)
        if isinstance(cause, ConnectionRefusedError):
            return message("The receiver refused the connection.")
        if isinstance(cause, ConnectionError):
            return message("The receiver closed the connection without an answer.")
        if isinstance(cause, OSError):
            return message("The receiver could not be reached: {detail}.", detail=cause.strerror or cause)
        return message("The receiver did not answer with HTTP.")

    def enforce_deadline(self) -> None:
        """Cut the connection when the current attempt has exceeded its time."""
        connection = self.connection
        if time.monotonic() >= self.deadline_at and connection:
            connection.cut()

    def close(self) -> None:
        if self.connection:
            self.connection.close()
            self.connection = None
