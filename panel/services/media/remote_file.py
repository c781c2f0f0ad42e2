"""A file on somebody's web server. It may lie wherever webhooks may go: on public addresses, behind TLS that is
verified. Each address is checked, also where a server sends us on to, and the connection goes to the very one that was
checked."""

import hashlib
import time
from http.client import HTTPException
from urllib.parse import urljoin, urlsplit

from urllib3.exceptions import HTTPError

from panel.core.errors import Invalid, Problem
from panel.services.webhooks import url_policy
from panel.services.webhooks.pinned_connection import Pinned, trust

HOPS = 5
SILENCE = 30.0
"""Seconds that a server may say nothing."""

GRACE, SLOWEST = 60.0, 16 * 1024
"""A server that has sent less than so many bytes a second, after this many seconds, holds up others."""

LARGEST = 256 * 1024**3
MOVED = (301, 302, 303, 307, 308)


class Unfetched(Problem):
    """The file could not be had. The message is for whoever wants it."""


def check(url, field="url"):
    """Raises Invalid when a file must not be fetched from there. A name that nobody knows yet is no fault now."""
    if urlsplit(url).scheme != "https":
        raise Invalid("The address must begin with https://.", **{field: "Must begin with https://."})
    try:
        host = url_policy.parse(url).host
        if known(host):
            url_policy.addresses(url)
    except url_policy.Refused as refused:
        raise Invalid(str(refused), **{field: str(refused)}) from None


def known(host):
    try:
        return url_policy.resolve(host)
    except url_policy.Refused:
        return []


class Source:
    """The bytes of the file: `read` gives them in portions, and at their end makes sure that they are the right ones.
    `size` is what the server says."""

    def __init__(self, url, sha256=None, most=LARGEST):
        self.sha256, self.hash, self.done = sha256, hashlib.sha256(), 0
        self.began = time.monotonic()
        self.connection, self.answer = reached(url, "GET")
        self.size = length(self.answer)
        problem = None
        if self.size is None:
            problem = "The server does not say how large the file is."
        elif self.size == 0:
            problem = "The file is empty."
        elif self.size > most:
            problem = f"The file is larger than {most // 1024**3} GiB."
        if problem:
            self.close()
            raise Unfetched(problem)

    def read(self, most):
        try:
            portion = self.answer.read1(min(most, self.size - self.done), decode_content=False)
        except (OSError, HTTPError, HTTPException, ValueError) as error:
            raise Unfetched(f"The connection broke after {self.done} of {self.size} bytes.") from error
        self.done += len(portion)
        self.hash.update(portion)
        lasted = time.monotonic() - self.began
        if lasted > GRACE and self.done < lasted * SLOWEST:
            raise Unfetched("The server is too slow.")
        if not portion:
            self.conclude()
        return portion

    def conclude(self):
        if self.done < self.size:
            raise Unfetched(f"The connection broke after {self.done} of {self.size} bytes.")
        if self.sha256 and self.hash.hexdigest() != self.sha256:
            raise Unfetched(f"The file is not the expected one: its SHA-256 is {self.hash.hexdigest()}.")

    def close(self):
        self.connection.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def size_of(url):
    """Bytes of the file as its server says without sending it; None when it says none."""
    connection, answer = reached(url, "HEAD")
    connection.close()
    return length(answer) or None


def length(answer):
    text = answer.headers.get("Content-Length", "")
    return int(text) if text.isascii() and text.isdigit() else None


def reached(url, method):
    """The connection and the answer with status 200, after as many as `HOPS` redirects."""
    for _ in range(HOPS + 1):
        connection, answer = asked(url, method)
        if answer.status == 200:
            return connection, answer
        connection.close()
        if answer.status not in MOVED or "Location" not in answer.headers:
            raise Unfetched(f"The server answered with {answer.status}.")
        url = urljoin(url, answer.headers["Location"])
    raise Unfetched("The server sends us from one address to the next without an end.")


def asked(url, method):
    if urlsplit(url).scheme != "https":
        raise Unfetched("The server redirects to an address without https. Files are fetched by https only.")
    try:
        target, found = url_policy.addresses(url)
    except url_policy.Refused as refused:
        raise Unfetched(str(refused)) from None
    connection = Pinned(target, found, trust(url_policy.authorities))
    try:
        connection.connect()
        connection.sock.settimeout(SILENCE)
        headers = {"Accept-Encoding": "identity", "User-Agent": "panel"}
        connection.request(method, target.path, headers=headers, preload_content=False)
        return connection, connection.getresponse()
    except (OSError, HTTPError, HTTPException, ValueError) as error:
        connection.close()
        raise Unfetched(f"The server could not be asked: {sentence(error)}.") from error


def sentence(error):
    cause = error.__context__ if isinstance(error, HTTPError) and error.__context__ else error
    words = getattr(cause, "verify_message", "") or getattr(cause, "strerror", "") or str(cause)
    return words.strip().rstrip(".")[:200]
