"""Many byte streams over one byte channel, such as the virtio-serial port of a guest.

Both ends use this module; the copy in a guest image has only the standard library. The host opens streams, and the
guest accepts them. The frames on the channel are described in `frames`.
"""

import asyncio
import os
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Protocol

from .frames import (
    DATA,
    END,
    HEADER,
    HELLO,
    MARKER,
    NO_SESSION,
    OPEN,
    OPENED,
    PROTOCOL_VERSION,
    RESET,
    SESSION_ID_BYTES,
    WINDOW,
    ChannelParser,
    ProtocolError,
    build_frame,
    split_payload,
)
from .mux_stream import BROKEN, CLOSED, WIDE_WINDOW_BYTES, MuxStream

READ_BYTES = 256 * 1024
BATCH_BYTES = 256 * 1024
"""Bytes of frames that are written at once. More would delay the frames of other streams."""

HELLO_RETRY_SECONDS = 1.0
"""Seconds after which the host sends its first HELLO again. The time doubles with each attempt, up to the maximum."""

MAX_HELLO_RETRY_SECONDS = 30.0


class ChannelLost(ConnectionError):
    """The channel or its session has ended."""


class ChannelReader(Protocol):
    async def read(self, n: int) -> bytes:
        """Return up to `n` bytes, and none when the other end is gone."""


class ChannelWriter(Protocol):
    def write(self, data: bytes) -> None: ...

    async def drain(self) -> None: ...

    def close(self) -> None: ...


class Mux:
    """One end of a channel. `run` serves it until it ends; then every stream is reset and `open_stream` fails."""

    def __init__(
        self,
        reader: ChannelReader,
        writer: ChannelWriter,
        accept: Callable[[MuxStream], Awaitable[None]] | None = None,
    ) -> None:
        """Without `accept` this is the host's end. `accept` serves a stream that the host opens, in a task of its own:
        it calls `confirm` or `reset`."""
        self.reader, self.writer, self.accept = reader, writer, accept
        self.is_host = accept is None
        self.streams: dict[int, MuxStream] = {}
        self.last_stream_id = 0
        self.session_id = NO_SESSION
        self.is_established = self.has_ended = False
        self.is_hello_due = not self.is_host
        """The guest starts with a HELLO, too: the host may have a session with a process before this one."""
        self.control: deque[bytes] = deque()
        self.ready: deque[MuxStream] = deque()
        """Streams that have something to send, in turn."""
        self.send_event = asyncio.Event()
        self.established_event = asyncio.Event()
        self.lost_event = asyncio.Event()
        self.parser = ChannelParser(self.on_frame)
        self.tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Serve the channel until the other end is gone or the task is cancelled. Raises other errors."""
        sender = asyncio.create_task(self.run_sender())
        receiver = asyncio.create_task(self.run_receiver())
        greeter = asyncio.create_task(self.run_greeter())
        workers = (sender, receiver, greeter)
        try:
            await asyncio.wait((sender, receiver), return_when=asyncio.FIRST_COMPLETED)
            for task in (sender, receiver):
                if task.done() and (error := task.exception()) and not isinstance(error, ConnectionError):
                    raise error
        finally:
            self.has_ended = True
            self.established_event.set()
            self.reset_streams()
            self.writer.close()
            tasks = [*workers, *self.tasks]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def wait_until_established(self) -> None:
        """Return when both ends have agreed on a session. Raises `ChannelLost`."""
        await self.established_event.wait()
        if self.has_ended:
            raise ChannelLost("The channel has ended.")

    async def open_stream(self, port: int) -> MuxStream:
        """Open a stream to a TCP port of the guest. Raises `StreamReset`, `ChannelLost`, ValueError."""
        if not 0 < port < 2**16:
            raise ValueError("The port is not valid.")
        return await self.open_control_stream(port)

    async def open_control_stream(self, port: int) -> MuxStream:
        """Open a stream, also one that is no TCP port (`IDENTITY_PORT`). Never pass a port that a client chose."""
        await self.wait_until_established()
        stream = MuxStream(self, self.choose_stream_id(), port)
        self.streams[stream.id] = stream
        stream.opened_waiter = asyncio.get_running_loop().create_future()
        self.send_control(OPEN, stream.id, port.to_bytes(2, "big"))
        try:
            await stream.opened_waiter
        except BaseException:
            stream.reset(CLOSED)
            raise
        return stream

    def choose_stream_id(self) -> int:
        while True:
            self.last_stream_id = self.last_stream_id % 0xFFFFFFFF + 1
            if self.last_stream_id not in self.streams:
                return self.last_stream_id

    def confirm_stream(self, stream: MuxStream) -> None:
        """Report that the stream's connection is made."""
        if stream.reset_reason is None:
            stream.is_opened = True
            self.send_control(OPENED, stream.id)

    # --- sending

    def send_control(self, kind: int, stream_id: int, payload: bytes = b"") -> None:
        self.control.append(build_frame(kind, stream_id, payload))
        self.send_event.set()

    def queue_stream(self, stream: MuxStream) -> None:
        if not stream.is_queued and stream.can_send():
            stream.is_queued = True
            self.ready.append(stream)
            self.send_event.set()

    def remove_stream(self, stream: MuxStream) -> None:
        stream.closed_event.set()
        if self.streams.get(stream.id) is stream:
            del self.streams[stream.id]

    async def run_sender(self) -> None:
        while True:
            batch = self.take_batch()
            if not batch:
                self.send_event.clear()
                await self.send_event.wait()
                continue
            self.writer.write(b"".join(batch))
            await self.writer.drain()

    def take_batch(self) -> list[bytes]:
        """Return the next frames: HELLO, then control frames, then one DATA frame of each stream in turn."""
        batch: list[bytes] = []
        if self.is_hello_due:
            self.is_hello_due = False
            batch += (MARKER, build_frame(HELLO, PROTOCOL_VERSION, self.session_id))
        batch += self.control
        self.control.clear()
        size = 0
        while self.ready and size < BATCH_BYTES:
            stream = self.ready.popleft()
            stream.is_queued = False
            if payload := stream.take_frame_payload():
                size += HEADER.size + len(payload)
                for piece in split_payload(payload):
                    batch += (HEADER.pack(DATA, stream.id, len(piece)), piece)
            if stream.is_end_due and not stream.unsent_bytes and not stream.is_end_sent and not stream.reset_reason:
                stream.is_end_sent = True
                batch.append(build_frame(END, stream.id))
                if stream.is_end_received:
                    self.remove_stream(stream)
            elif stream.unsent_bytes:
                self.queue_stream(stream)
        return batch

    async def run_greeter(self) -> None:
        """Start sessions, as the host, until one is established: a HELLO may be lost with what was before it."""
        if not self.is_host:
            return
        self.start_session()
        pause = HELLO_RETRY_SECONDS
        while True:
            try:
                async with asyncio.timeout(pause):
                    await self.established_event.wait()
            except TimeoutError:
                self.start_session()
                pause = min(2 * pause, MAX_HELLO_RETRY_SECONDS)
            else:
                await self.lost_event.wait()
                pause = HELLO_RETRY_SECONDS

    def set_established(self) -> None:
        self.is_established = True
        self.lost_event.clear()
        self.established_event.set()

    def forget_session(self) -> None:
        self.reset_streams()
        self.is_established = False
        self.established_event.clear()
        self.lost_event.set()

    def start_session(self) -> None:
        """Forget the session and greet again: the host with a new id, the guest with none."""
        self.forget_session()
        self.session_id = os.urandom(SESSION_ID_BYTES // 2).hex().encode() if self.is_host else NO_SESSION
        self.is_hello_due = True
        self.send_event.set()

    def reset_streams(self) -> None:
        for stream in list(self.streams.values()):
            stream.end(CLOSED)
        for task in self.tasks:
            task.cancel()
        self.control.clear()
        self.ready.clear()

    # --- receiving

    async def run_receiver(self) -> None:
        while chunk := await self.reader.read(READ_BYTES):
            try:
                self.parser.feed(chunk)
            except ProtocolError:
                self.start_session()

    def on_frame(self, kind: int, stream_id: int, payload: bytes) -> None:
        if kind == HELLO:
            self.on_hello(stream_id, payload)
            return
        if not self.is_established:
            return  # of a session before
        stream = self.streams.get(stream_id)
        if kind == OPEN:
            self.on_open(stream, stream_id, int.from_bytes(payload, "big"))
        elif stream is None:
            pass  # it was reset here, and the other end does not know yet
        elif kind == DATA:
            stream.add_received(payload)
        elif kind == WINDOW:
            stream.send_credit += int.from_bytes(payload, "big")
            if stream.send_credit > WIDE_WINDOW_BYTES:
                stream.reset(BROKEN)
            else:
                self.queue_stream(stream)
        elif kind == END:
            stream.is_end_received = True
            stream.input_ended.set()
            stream.wake_reader()
            if stream.is_end_sent:
                self.remove_stream(stream)
        elif kind == RESET:
            stream.end(payload.decode("ascii", "replace"))
        elif stream.opened_waiter and not stream.opened_waiter.done():
            stream.is_opened = True
            stream.opened_waiter.set_result(None)

    def on_hello(self, version: int, session_id: bytes) -> None:
        if version != PROTOCOL_VERSION:  # answering would make both ends greet each other without end
            self.forget_session()
        elif not self.is_host:
            self.reset_streams()
            self.session_id, self.is_hello_due = session_id, True
            self.set_established()
            self.send_event.set()
        elif session_id == self.session_id and not self.is_established:
            self.set_established()
        elif session_id == NO_SESSION and not self.is_hello_due:  # an unsent HELLO is enough
            self.start_session()

    def on_open(self, stream: MuxStream | None, stream_id: int, port: int) -> None:
        if self.accept is None or stream is not None:
            raise ProtocolError("A stream was opened that cannot be.")
        stream = self.streams[stream_id] = MuxStream(self, stream_id, port)
        task = asyncio.create_task(self.serve_stream(stream))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def serve_stream(self, stream: MuxStream) -> None:
        assert self.accept is not None
        try:
            await self.accept(stream)
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            stream.reset(CLOSED)
