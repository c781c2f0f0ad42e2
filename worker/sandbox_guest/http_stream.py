"""HTTP connections that are streams of the channel. Their bytes pass no socket of the guest."""

import asyncio
import os
from typing import BinaryIO

from .mux import BATCH_BYTES
from .mux_stream import PAYLOAD_BYTES, MuxStream

MAX_LINE_BYTES = 64 * 1024
"""Bytes that `readuntil` reads at most, as asyncio's StreamReader with the server's limit."""


class StreamConnection:
    """A stream with those methods of asyncio's StreamReader and StreamWriter that the HTTP server uses."""

    def __init__(self, stream: MuxStream) -> None:
        self.stream = stream
        self.pending = bytearray()
        """Bytes that were received behind a line."""
        self.closed = asyncio.Event()

    # --- reading

    async def read(self, n: int) -> bytes:
        return self.take_pending(n) if self.pending else await self.stream.read(n)

    async def readexactly(self, n: int) -> bytes:
        while len(self.pending) < n:
            await self.fill()
        return self.take_pending(n)

    async def readuntil(self, separator: bytes) -> bytes:
        start = 0
        while (position := self.pending.find(separator, start)) < 0:
            start = max(0, len(self.pending) - len(separator) + 1)
            if start > MAX_LINE_BYTES:
                raise asyncio.LimitOverrunError("The separator is not found.", start)
            await self.fill()
        if position > MAX_LINE_BYTES:
            raise asyncio.LimitOverrunError("The separator is too far away.", position)
        return self.take_pending(position + len(separator))

    def at_eof(self) -> bool:
        return not self.pending and not self.stream.received and self.stream.input_ended.is_set()

    async def fill(self) -> None:
        data = await self.stream.read()
        if not data:
            raise asyncio.IncompleteReadError(bytes(self.pending), None)
        self.pending += data

    def take_pending(self, n: int) -> bytes:
        data = bytes(self.pending[:n])
        del self.pending[:n]
        return data

    # --- writing

    def write(self, data: bytes) -> None:
        self.stream.write(data)

    async def drain(self) -> None:
        await self.stream.drain()

    async def send_file(self, file: BinaryIO, offset: int, count: int) -> int:
        """Send a part of a file and return its size, which is smaller when the file has become shorter."""
        sent = 0
        while data := os.pread(file.fileno(), min(PAYLOAD_BYTES, count - sent), offset + sent):
            self.stream.write(data)
            sent += len(data)
            if self.stream.unsent_bytes >= BATCH_BYTES:
                await self.stream.drain()
        await self.stream.drain()
        return sent

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.stream.write_eof()

    def is_closing(self) -> bool:
        return self.closed.is_set() or self.stream.reset_reason is not None

    def close(self) -> None:
        """End the connection after what was written."""
        self.stream.write_eof()
        self.closed.set()

    async def wait_closed(self) -> None:
        """Return when the host has ended the stream as well. Raises ConnectionResetError when it sends more instead."""
        await self.closed.wait()
        if await self.stream.read():
            raise ConnectionResetError("The connection is closed.")
        await self.stream.wait_closed()


Reader = asyncio.StreamReader | StreamConnection
Writer = asyncio.StreamWriter | StreamConnection


def has_received(reader: Reader) -> bool:
    """Return whether a read gets data at once for certain."""
    return isinstance(reader, StreamConnection) and bool(reader.pending or reader.stream.received)


def abort(writer: Writer) -> None:
    """End the connection at once."""
    if isinstance(writer, StreamConnection):
        writer.stream.reset()
    else:
        writer.transport.abort()


async def send_file_part(writer: Writer, file: BinaryIO, offset: int, count: int) -> int:
    """Send a part of a file and return how much was sent. The kernel copies it where it can do so."""
    if isinstance(writer, StreamConnection):
        return await writer.send_file(file, offset, count)
    return await asyncio.get_running_loop().sendfile(writer.transport, file, offset, count)
