"""Fetching a customer's compose file: like webhooks, from public addresses only."""

import time
from http.client import HTTPException

from urllib3.exceptions import HTTPError

from panel.core.messages import message
from panel.services.media import remote_file
from panel.services.media.remote_file import FetchError

MAX_COMPOSE_FILE_BYTES = 256 * 1024
FETCH_TIMEOUT_SECONDS = 60.0
"""Seconds that the server may take to send the file."""


def fetch_text(url: str) -> str:
    """Return the text at the URL. Raise `FetchError` with a message when it cannot be fetched. Addresses of redirects
    are checked like the first one."""
    deadline = time.monotonic() + FETCH_TIMEOUT_SECONDS
    connection, response = remote_file.open_url(url, "GET")
    content = b""
    try:
        while chunk := response.read1(65536, decode_content=False):
            content += chunk
            if len(content) > MAX_COMPOSE_FILE_BYTES:
                raise FetchError(
                    message("The compose file is larger than {maximum} KiB.", maximum=MAX_COMPOSE_FILE_BYTES // 1024)
                )
            if time.monotonic() > deadline:
                raise FetchError(message("The server is too slow."))
    except (OSError, HTTPError, HTTPException, ValueError) as error:
        raise FetchError(message("The connection broke after {count} bytes.", count=len(content))) from error
    finally:
        connection.close()
    content_length = remote_file.parse_content_length(response)
    if content_length is not None and len(content) < content_length:
        raise FetchError(
            message(
                "The connection broke after {count} of {content_length} bytes.",
                count=len(content),
                content_length=content_length,
            )
        )
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise FetchError(message("The compose file is not text in UTF-8.")) from None
    if not text.strip():
        raise FetchError(message("The compose file is empty."))
    return text
