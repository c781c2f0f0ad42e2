"""One byte stream of a channel."""

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from .frames import HEADER, MAX_PAYLOAD_BYTES, RESET, WINDOW

if TYPE_CHECKING:
    from .mux import Mux

WINDOW_BYTES = 512 * 1024
"""Bytes of a new stream that a sender may send before the receiver grants more. Each grant passes several processes,
which may be busy, so the window is large. Each also costs an emulated guest half a millisecond."""

WIDE_WINDOW_BYTES = 2 * WINDOW_BYTES
"""The same after the first grant, while a channel has few streams. Senders then wait less often for grants."""

MAX_WIDE_STREAMS = 16
"""Streams of a channel with which windows are widened. More would need much memory when their readers stop."""

GRANT_BYTES = WINDOW_BYTES // 2
"""Bytes that were read before they are granted again."""

PAYLOAD_BYTES = MAX_PAYLOAD_BYTES - HEADER.size
"""Bytes of a DATA frame that is sent, so that it has 64 KiB: a virtio-serial port takes 32 KiB of a write, and the few
bytes behind them would cost as much."""

WRITE_BUFFER_BYTES = 64 * 1024
"""Unsent bytes of a stream above which `drain` waits."""

SMALL_PIECE_BYTES = 4096
"""Received pieces below this size are joined, so that a window of tiny ones does not need many times its memory."""

IDENTITY_PORT = 0
"""The port of the stream that carries the identity. No program can listen on it."""

REFUSED, CLOSED, BROKEN = "refused", "closed", "protocol"
"""Reasons of a RESET."""


class StreamReset(ConnectionError):
    """A stream was reset. `reason` is that of the frame, or `closed` when the channel was lost."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"The stream was reset: {reason}.")
        self.reason = reason


class MuxStream:
    """One byte stream, with the methods of asyncio's StreamReader and StreamWriter in one object."""

    def __init__(self, mux: "Mux", stream_id: int, port: int) -> None:
        self.mux, self.id, self.port = mux, stream_id, port
        self.received: deque[bytes] = deque()
        self.received_bytes = self.ungranted_bytes = 0
        """Bytes that were received and not read, and bytes that were read and not granted again."""
        self.unsent: deque[bytes] = deque()
        self.unsent_bytes = 0
        self.send_credit = self.receive_window = WINDOW_BYTES
        self.is_opened = self.is_end_received = self.is_end_due = self.is_end_sent = self.is_queued = False
        self.reset_reason: str | None = None
        self.read_waiter: asyncio.Future | None = None
        self.drain_waiters: list[asyncio.Future] = []
        self.opened_waiter: asyncio.Future | None = None
        self.input_ended = asyncio.Event()
        """Set when no more is received."""
        self.closed_event = asyncio.Event()

    # --- reading

    async def read(self, maximum: int = MAX_PAYLOAD_BYTES) -> bytes:
        """Return the next bytes, and none at the end. Raises `StreamReset` when what arrived before was read."""
        while not self.received:
            if self.is_end_received:
                return b""
            if self.reset_reason is not None:
                raise StreamReset(self.reset_reason)
            if self.read_waiter is not None:
                raise RuntimeError("Another task is reading this stream.")
            self.read_waiter = asyncio.get_running_loop().create_future()
            try:
                await self.read_waiter
            finally:
                self.read_waiter = None
        chunk = self.received.popleft()
        if len(chunk) > maximum:
            self.received.appendleft(chunk[maximum:])
            chunk = chunk[:maximum]
        self.received_bytes -= len(chunk)
        self.ungranted_bytes += len(chunk)
        if self.ungranted_bytes >= GRANT_BYTES and not self.is_end_received and self.reset_reason is None:
            self.grant_read_bytes()
        return chunk

    def grant_read_bytes(self) -> None:
        granted, self.ungranted_bytes = self.ungranted_bytes, 0
        if len(self.mux.streams) <= MAX_WIDE_STREAMS:
            granted += WIDE_WINDOW_BYTES - self.receive_window
            self.receive_window = WIDE_WINDOW_BYTES
        self.mux.send_control(WINDOW, self.id, granted.to_bytes(4, "big"))

    # --- writing

    def write(self, data: bytes | memoryview) -> None:
        """Queue the bytes. They are dropped when the stream was reset, which `drain` reports."""
        if self.is_end_due:
            raise RuntimeError("The stream was ended by write_eof.")
        if data and self.reset_reason is None:
            self.unsent.append(bytes(data))
            self.unsent_bytes += len(data)
            self.mux.queue_stream(self)

    async def drain(self) -> None:
        """Wait until few bytes are unsent. Raises `StreamReset`."""
        while self.unsent_bytes > WRITE_BUFFER_BYTES and self.reset_reason is None:
            waiter = asyncio.get_running_loop().create_future()
            self.drain_waiters.append(waiter)
            try:
                await waiter
            finally:
                if waiter in self.drain_waiters:
                    self.drain_waiters.remove(waiter)
        if self.reset_reason is not None:
            raise StreamReset(self.reset_reason)

    def write_eof(self) -> None:
        """End this direction after the queued bytes. The other one stays open."""
        if not self.is_end_due and self.reset_reason is None:
            self.is_end_due = True
            self.mux.queue_stream(self)

    def reset(self, reason: str = CLOSED) -> None:
        """End both directions at once. Nothing is done to a stream that has ended."""
        if self.reset_reason is None and not self.closed_event.is_set():
            self.mux.send_control(RESET, self.id, reason.encode())
            self.end(reason)
            self.received.clear()
            self.received_bytes = 0

    async def wait_closed(self) -> None:
        """Return when both directions have ended and everything was sent, or when the stream was reset."""
        await self.closed_event.wait()

    # --- what the mux calls

    def take_frame_payload(self) -> bytes:
        """Return the bytes of the next DATA frame, as many as the credit allows, and none when nothing may be sent.

        A piece that fits into a frame of its own is not cut: a short one before it would cause copies of all others.
        """
        maximum = min(self.send_credit, PAYLOAD_BYTES)
        pieces, size = [], 0
        while self.unsent and size < maximum:
            piece = self.unsent[0]
            if size + len(piece) > maximum:
                if size and len(piece) <= PAYLOAD_BYTES:
                    break
                self.unsent[0] = piece[maximum - size :]
                piece = piece[: maximum - size]
            else:
                self.unsent.popleft()
            pieces.append(piece)
            size += len(piece)
        if not size:
            return b""
        self.send_credit -= size
        self.unsent_bytes -= size
        if self.unsent_bytes <= WRITE_BUFFER_BYTES:
            self.wake_writers()
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def add_received(self, data: bytes) -> None:
        if self.is_end_received or self.received_bytes + self.ungranted_bytes + len(data) > self.receive_window:
            self.reset(BROKEN)
            return
        if self.received and len(self.received[-1]) < SMALL_PIECE_BYTES:
            self.received[-1] += data
        else:
            self.received.append(data)
        self.received_bytes += len(data)
        self.wake_reader()

    def end(self, reason: str) -> None:
        """Mark the stream as reset, here only."""
        self.reset_reason = reason
        self.input_ended.set()
        self.unsent.clear()
        self.unsent_bytes = 0
        self.mux.remove_stream(self)
        self.wake_reader()
        self.wake_writers()
        if self.opened_waiter and not self.opened_waiter.done():
            self.opened_waiter.set_exception(StreamReset(reason))

    def wake_reader(self) -> None:
        if self.read_waiter and not self.read_waiter.done():
            self.read_waiter.set_result(None)

    def wake_writers(self) -> None:
        waiters, self.drain_waiters = self.drain_waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def can_send(self) -> bool:
        return bool(self.unsent_bytes and self.send_credit) or (self.is_end_due and not self.unsent_bytes)
