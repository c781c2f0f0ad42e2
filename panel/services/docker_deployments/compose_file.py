"""A compose file at an address of the customer's: fetched as webhooks are sent, to public addresses only."""

import time
from http.client import HTTPException

from urllib3.exceptions import HTTPError

from panel.services.media import remote_file
from panel.services.media.remote_file import Unfetched

MAX_COMPOSE_FILE_BYTES = 256 * 1024
FETCH_TIMEOUT_SECONDS = 60.0
"""Seconds that the server may take to send it."""


def fetch_text(url):
    """Its text. Raises `Unfetched` with a sentence when it cannot be had. Each address that the server sends us on to
    is looked at as the first one is."""
    until = time.monotonic() + FETCH_TIMEOUT_SECONDS
    connection, answer = remote_file.open_url(url, "GET")
    content = b""
    try:
        while portion := answer.read1(65536, decode_content=False):
            content += portion
            if len(content) > MAX_COMPOSE_FILE_BYTES:
                raise Unfetched(f"The compose file is larger than {MAX_COMPOSE_FILE_BYTES // 1024} KiB.")
            if time.monotonic() > until:
                raise Unfetched("The server is too slow.")
    except (OSError, HTTPError, HTTPException, ValueError) as error:
        raise Unfetched(f"The connection broke after {len(content)} bytes.") from error
    finally:
        connection.close()
    promised = remote_file.parse_content_length(answer)
    if promised is not None and len(content) < promised:
        raise Unfetched(f"The connection broke after {len(content)} of {promised} bytes.")
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise Unfetched("The compose file is not text in UTF-8.") from None
    if not text.strip():
        raise Unfetched("The compose file is empty.")
    return text
