"""A file on an external web server.

The same addresses are allowed as for webhooks: public ones, with verified TLS. Each address is checked, those of
redirects too, and the connection is made to the very address that was checked.
"""

import hashlib
import time
from http.client import HTTPException
from ipaddress import IPv4Address, IPv6Address
from typing import Self
from urllib.parse import urljoin, urlsplit

from urllib3 import BaseHTTPResponse
from urllib3.exceptions import HTTPError

from panel.core import context
from panel.core.errors import Invalid, Problem
from panel.core.messages import get_message, message
from panel.services.webhooks import url_policy
from panel.services.webhooks.pinned_connection import PinnedConnection, create_ssl_context

MAX_REDIRECTS = 5
READ_TIMEOUT_SECONDS = 30.0
"""How long to wait for data."""

SLOW_GRACE_SECONDS, MIN_BYTES_PER_SECOND = 60.0, 16 * 1024
"""After these seconds, a server that has sent fewer bytes a second is given up."""

MAX_FILE_BYTES = 256 * 1024**3
REDIRECT_STATUSES = (301, 302, 303, 307, 308)


class FetchError(Problem):
    """The file could not be downloaded. The message is for the person who requested it."""


def ensure_allowed_url(url: str, error_field: str = "url") -> None:
    """Raise Invalid if files must not be downloaded from there. A host name without addresses passes for now."""
    if urlsplit(url).scheme != "https":
        raise Invalid(
            message("The address must begin with https://."), **{error_field: message("Must begin with https://.")}
        )
    try:
        host = url_policy.parse_url(url).host
        if try_resolve(host):
            url_policy.resolve_target(url)
    except url_policy.UrlRefused as refused:
        raise Invalid(get_message(refused), **{error_field: get_message(refused)}) from None


def try_resolve(host: str) -> list[IPv4Address | IPv6Address]:
    try:
        return url_policy.resolve(host)
    except url_policy.UrlRefused:
        return []


class RemoteFile:
    """The bytes of a remote file.

    `read` returns them in chunks and at the end verifies size and hash. `size` is the server's Content-Length.
    """

    def __init__(self, url: str, sha256: str | None = None, max_bytes: int = MAX_FILE_BYTES) -> None:
        self.sha256, self.hash, self.done = sha256, hashlib.sha256(), 0
        self.started_at = time.monotonic()
        self.connection, self.answer = open_url(url, "GET")
        size = parse_content_length(self.answer)
        self.size, problem = size or 0, None
        if size is None:
            problem = message("The server does not say how large the file is.")
        elif size == 0:
            problem = message("The file is empty.")
        elif size > max_bytes:
            problem = message("The file is larger than {maximum} GiB.", maximum=max_bytes // 1024**3)
        if problem:
            self.close()
            raise FetchError(problem)

    def read(self, max_bytes: int) -> bytes:
        try:
            chunk = self.answer.read1(min(max_bytes, self.size - self.done), decode_content=False)
        except (OSError, HTTPError, HTTPException, ValueError) as error:
            raise FetchError(
                message("The connection broke after {done} of {size} bytes.", done=self.done, size=self.size)
            ) from error
        self.done += len(chunk)
        self.hash.update(chunk)
        elapsed = time.monotonic() - self.started_at
        if elapsed > SLOW_GRACE_SECONDS and self.done < elapsed * MIN_BYTES_PER_SECOND:
            raise FetchError(message("The server is too slow."))
        if not chunk:
            self.verify()
        return chunk

    def verify(self) -> None:
        if self.done < self.size:
            raise FetchError(
                message("The connection broke after {done} of {size} bytes.", done=self.done, size=self.size)
            )
        if self.sha256 and self.hash.hexdigest() != self.sha256:
            raise FetchError(
                message("The file is not the expected one: its SHA-256 is {hash}.", hash=self.hash.hexdigest())
            )

    def close(self) -> None:
        self.connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def find_size(url: str) -> int | None:
    """Return the size in bytes by a HEAD request; None if the server does not send it."""
    connection, answer = open_url(url, "HEAD")
    connection.close()
    return parse_content_length(answer) or None


def parse_content_length(answer: BaseHTTPResponse) -> int | None:
    text = answer.headers.get("Content-Length", "")
    return int(text) if text.isascii() and text.isdigit() else None


def open_url(url: str, method: str) -> tuple[PinnedConnection, BaseHTTPResponse]:
    """Return the connection and the answer with status 200, after at most `MAX_REDIRECTS` redirects."""
    for _ in range(MAX_REDIRECTS + 1):
        connection, answer = send_request(url, method)
        if answer.status == 200:
            return connection, answer
        connection.close()
        if answer.status not in REDIRECT_STATUSES or "Location" not in answer.headers:
            raise FetchError(message("The server answered with {status}.", status=answer.status))
        url = urljoin(url, answer.headers["Location"])
    raise FetchError(message("The server redirects too many times."))


def send_request(url: str, method: str) -> tuple[PinnedConnection, BaseHTTPResponse]:
    if urlsplit(url).scheme != "https":
        raise FetchError(message("The server redirects to an address without https. Files are fetched by https only."))
    try:
        target, addresses = url_policy.resolve_target(url)
    except url_policy.UrlRefused as refused:
        raise FetchError(get_message(refused)) from None
    connection = PinnedConnection(target, addresses, create_ssl_context(context.current().config.webhook_ca))
    try:
        connection.connect()
        connection.sock.settimeout(READ_TIMEOUT_SECONDS)
        headers = {"Accept-Encoding": "identity", "User-Agent": "panel"}
        connection.request(method, target.path, headers=headers, preload_content=False)
        return connection, connection.getresponse()
    except (OSError, HTTPError, HTTPException, ValueError) as error:
        connection.close()
        raise FetchError(message("The server could not be reached: {detail}.", detail=describe_error(error))) from error


def describe_error(error: Exception) -> str:
    cause = error.__context__ if isinstance(error, HTTPError) and error.__context__ else error
    text = getattr(cause, "verify_message", "") or getattr(cause, "strerror", "") or str(cause)
    return text.strip().rstrip(".")[:200]
