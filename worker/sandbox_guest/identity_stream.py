"""Passing the identity of a sandbox through its channel.

The stream has a port that no program can listen on, so the router reaches it with no request, and nothing inside the
sandbox reaches it at all. The host sends the document and the end; the guest answers with `{}` or `{"error": …}`. This
takes a fraction of the time that a Python program needs to start.
"""

import json
from pathlib import Path
from typing import Any

from .identity import apply_identity
from .mux import Mux
from .mux_stream import BROKEN, IDENTITY_PORT, MuxStream

MAX_DOCUMENT_BYTES = 1024 * 1024


class IdentityRefused(Exception):
    """The guest could not apply the identity."""


async def send_identity(mux: Mux, document: dict[str, Any]) -> None:
    """Give the guest its identity. Raises `IdentityRefused`, `StreamReset`, `ChannelLost`."""
    stream = await mux.open_control_stream(IDENTITY_PORT)
    try:
        stream.write(json.dumps(document).encode())
        stream.write_eof()
        answer = await read_document(stream)
    finally:
        stream.reset()
    if answer != {}:
        raise IdentityRefused(answer.get("error") if isinstance(answer, dict) else "The answer is not valid.")


async def receive_identity(stream: MuxStream, root: Path = Path("/")) -> None:
    """Apply the identity that the host sends. With another root the kernel is left as it is."""
    stream.mux.confirm(stream)
    try:
        document = await read_document(stream)
        if not isinstance(document, dict):
            raise ValueError("the document is not an object")
        apply_identity(document, root, in_kernel=root == Path("/"))
        answer = {}
    except (OSError, ValueError, TypeError) as error:
        answer = {"error": str(error)}
    stream.write(json.dumps(answer).encode())
    stream.write_eof()
    await stream.wait_closed()


async def read_document(stream: MuxStream) -> Any:
    """Return the JSON document that the other end sends. Raises ValueError."""
    document = bytearray()
    while data := await stream.read():
        document += data
        if len(document) > MAX_DOCUMENT_BYTES:
            stream.reset(BROKEN)
            raise ValueError("the document is too large")
    return json.loads(document)
