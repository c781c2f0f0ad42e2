"""The connection to one receiver, kept between deliveries. TLS is urllib3's, answers are read by http.client; where it
goes and how long it may take is ours."""

import ssl
import time
from contextlib import suppress
from http.client import HTTPException

from urllib3.exceptions import HTTPError

from panel.services.webhooks.pinned_connection import CONNECT_TIMEOUT_SECONDS, PinnedConnection, create_ssl_context
from panel.services.webhooks.url_policy import UrlRefused, resolve_target

__all__ = ["ReceiverConnection", "create_ssl_context"]

ANSWER_TIMEOUT_SECONDS, ATTEMPT_TIMEOUT_SECONDS = 20.0, 30.0
"""Seconds: for an answer, for an attempt with everything (specification, section 8)."""

MAX_ANSWER_BYTES = 65536
"""Bytes that are read of an answer."""

ATTEMPT_TIMEOUT_MESSAGE = f"The attempt was cut off because it took longer than {ATTEMPT_TIMEOUT_SECONDS:.0f} seconds."


class AttemptFailed(Exception):
    """There was no answer. The message is a sentence that the customer reads."""


class ReceiverConnection:
    """Posts to one address. One thread uses it; another one calls `cut_late` now and then."""

    def __init__(self, url, context):
        self.url, self.context = url, context
        self.connection = None
        self.began_at = self.deadline_at = float("inf")

    def post(self, payload, headers):
        """Returns the status and how the answer begins. Raises Failed. The status decides: what is wrong with the body
        of an answer does not matter."""
        self.began_at = time.monotonic()
        self.deadline_at = self.began_at + ATTEMPT_TIMEOUT_SECONDS
        try:
            self.reach()
            answer = self.ask(payload, headers)
            return answer.status, self.read(answer)
        except AttemptFailed:
            self.close()
            raise
        finally:
            self.began_at = self.deadline_at = float("inf")

    def reach(self):
        """Connects, unless it is still connected. It goes to an address that was just found to be public."""
        if self.connection and self.connection.is_connected:
            return
        self.close()
        try:
            target, found = resolve_target(self.url)
            self.path, self.connection = target.path, PinnedConnection(target, found, self.context)
            self.connection.connect()
            self.connection.sock.settimeout(ANSWER_TIMEOUT_SECONDS)
        except UrlRefused as refused:
            raise AttemptFailed(str(refused)) from None
        except (OSError, HTTPError, ValueError) as error:
            raise AttemptFailed(
                self.describe_error(
                    error, f"The receiver could not be reached within {CONNECT_TIMEOUT_SECONDS:.0f} seconds."
                )
            ) from error

    def ask(self, payload, headers):
        try:
            answer = self.connection.post(self.path, headers, payload)
        except (OSError, HTTPError, HTTPException, ValueError) as error:
            raise AttemptFailed(
                self.describe_error(error, f"The receiver did not answer within {ANSWER_TIMEOUT_SECONDS:.0f} seconds.")
            ) from error
        if time.monotonic() >= self.deadline_at:  # cut off within the headers, which looks like their end
            raise AttemptFailed(ATTEMPT_TIMEOUT_MESSAGE)
        return answer

    def read(self, answer):
        """The connection is only used again when the whole body was read and the receiver keeps it."""
        body, part, is_whole = b"", b"", False
        with suppress(OSError, HTTPException, ValueError):
            while len(body) < MAX_ANSWER_BYTES and (part := answer.read1(MAX_ANSWER_BYTES - len(body))):
                body += part
            is_whole = not part and not answer.length
        answer.close()
        if answer.will_close or not is_whole:
            self.close()
        return body

    def describe_error(self, error, silent):
        """What went wrong, as a sentence."""
        cause = error.__context__ if isinstance(error, HTTPError) and error.__context__ else error
        if time.monotonic() >= self.deadline_at:
            return ATTEMPT_TIMEOUT_MESSAGE
        if isinstance(cause, TimeoutError):
            return silent
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"The receiver's certificate is not valid: {cause.verify_message}."
        if isinstance(cause, ssl.SSLError):
            return f"The receiver does not speak TLS as it must: {cause.reason or cause}."
        if isinstance(cause, ConnectionRefusedError):
            return "The receiver refused the connection."
        if isinstance(cause, ConnectionError):
            return "The receiver closed the connection without an answer."
        if isinstance(cause, OSError):
            return f"The receiver could not be reached: {cause.strerror or cause}."
        return "What the receiver answered is not HTTP."

    def enforce_deadline(self):
        """Ends an attempt that takes too long, whatever it waits for."""
        connection = self.connection
        if time.monotonic() >= self.deadline_at and connection:
            connection.cut()

    def close(self):
        if self.connection:
            self.connection.close()
            self.connection = None
