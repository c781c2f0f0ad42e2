"""Passing the identity of a sandbox through its channel, and reports about the sandbox back.

The stream has a port that no program can listen on, so the router reaches it with no request, and nothing inside the
sandbox reaches it at all. The host sends the document and the end; the guest answers with `{}` or `{"error": …}`. This
takes a fraction of the time that a Python program needs to start.
"""

import json
from pathlib import Path
from typing import Any

from .identity import apply_identity
from .log_entries import INFO
from .mux import Mux
from .mux_stream import BROKEN, IDENTITY_PORT, MuxStream
from .reports import Reporter

MAX_DOCUMENT_BYTES = 1024 * 1024


class IdentityRefused(Exception):
    """The guest could not apply the identity."""


async def send_identity(mux: Mux, document: dict[str, Any]) -> None:
    """Give the guest its identity. Raises `IdentityRefused`, `StreamReset`, `ChannelLost`."""
    answer = json.loads(await exchange_documents(mux, document, MAX_DOCUMENT_BYTES))
    if answer != {}:
        raise IdentityRefused(answer.get("error") if isinstance(answer, dict) else "The answer is not valid.")


async def exchange_documents(mux: Mux, document: dict[str, Any], maximum: int) -> bytes:
    """Send a document to the guest and return its answer, of at most `maximum` bytes, as it is."""
    stream = await mux.open_control_stream(IDENTITY_PORT)
    try:
        stream.write(json.dumps(document).encode())
        stream.write_eof()
        return await read_bytes(stream, maximum)
    finally:
        stream.reset()


async def receive_identity(stream: MuxStream, root: Path = Path("/"), reporter: Reporter | None = None) -> None:
    """Apply the identity that the host sends, or answer its request for a report. With another root the kernel is left
    as it is."""
    stream.mux.confirm_stream(stream)
    answer: dict[str, Any] = {}
    try:
        document = await read_document(stream)
        if not isinstance(document, dict):
            raise ValueError("the document is not an object")
        if reporter and "report" in document:
            answer = await reporter.build_report(document["report"])
        else:
            apply_identity(document, root, in_kernel=root == Path("/"))
            if reporter:
                reporter.entries.log(INFO, "daemon", "Identity applied")
    except (OSError, ValueError, TypeError) as error:
        answer = {"error": str(error)}
    stream.write(json.dumps(answer).encode())
    stream.write_eof()
    await stream.wait_closed()


async def read_document(stream: MuxStream) -> Any:
    """Return the JSON document that the other end sends. Raises ValueError."""
    return json.loads(await read_bytes(stream, MAX_DOCUMENT_BYTES))


async def read_bytes(stream: MuxStream, maximum: int) -> bytes:
    """Return what the other end sends. Raises ValueError."""
    document = bytearray()
    while data := await stream.read():
        document += data
        if len(document) > maximum:
            stream.reset(BROKEN)
            raise ValueError("the document is too large")
    return bytes(document)
