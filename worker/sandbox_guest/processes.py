"""Processes of the sandbox: their output, input, exit and the clients that follow them."""

import asyncio
import base64
import contextlib
import fcntl
import os
import signal
import struct
import termios
from collections import deque
from subprocess import Popen
from typing import Any, BinaryIO

from .connect_protocol import Message, encode_message
from .errors import RpcError

MAX_BUFFERED_BYTES = 1024 * 1024
"""How much output is kept for a client that does not read. The process is not read any more until there is room."""
PIPE_PIECE_BYTES = 32 * 1024
TERMINAL_PIECE_BYTES = 16 * 1024
OUTPUT_LINGER_SECONDS = 2.0
"""How long the output of an ended process is still awaited, when a process of its own keeps the pipe open."""


class Subscription:
    """The events of one process that one client has not received yet."""

    def __init__(self, process: "Process"):
        self.process = process
        self.events: deque[bytes] = deque()
        self.size = 0
        self.is_complete = False
        self.ready = asyncio.Event()

    @property
    def is_congested(self) -> bool:
        return self.size >= MAX_BUFFERED_BYTES

    def put(self, event: bytes) -> None:
        self.events.append(event)
        self.size += len(event)
        self.ready.set()

    def complete(self) -> None:
        """Record that no more events follow."""
        self.is_complete = True
        self.ready.set()

    async def get(self) -> bytes | None:
        """Wait for the next event and return it, or None after the last one."""
        while not self.events:
            if self.is_complete:
                return None
            self.ready.clear()
            await self.ready.wait()
        event = self.events.popleft()
        was_congested = self.is_congested
        self.size -= len(event)
        if was_congested and not self.is_congested:
            self.process.resume_output()
        return event


class OutputReader:
    """Reads one pipe or terminal of a process whenever it has data and every client has room."""

    def __init__(self, process: "Process", file: BinaryIO, kind: str):
        self.process = process
        self.file = file
        self.kind = kind
        self.piece_bytes = TERMINAL_PIECE_BYTES if kind == "pty" else PIPE_PIECE_BYTES
        self.loop = asyncio.get_running_loop()
        self.is_reading = False
        self.is_closed = False
        os.set_blocking(file.fileno(), False)
        self.resume()

    def resume(self) -> None:
        if not self.is_closed and not self.is_reading:
            self.is_reading = True
            self.loop.add_reader(self.file.fileno(), self.read)

    def pause(self) -> None:
        if self.is_reading:
            self.is_reading = False
            self.loop.remove_reader(self.file.fileno())

    def read(self) -> None:
        """Read one piece and pass it to the clients."""
        try:
            piece = os.read(self.file.fileno(), self.piece_bytes)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:  # EIO: no process has the terminal open any more
            piece = b""
        if piece:
            self.process.publish_output(self.kind, piece)
        else:
            self.close()
            self.process.on_output_end()

    def close(self) -> None:
        if not self.is_closed:
            self.pause()
            self.is_closed = True
            self.file.close()


class InputWriter:
    """Writes to the standard input or terminal of a process and waits while the process does not read."""

    def __init__(self, file: BinaryIO):
        self.file = file
        self.loop = asyncio.get_running_loop()
        self.lock = asyncio.Lock()
        self.room: asyncio.Future[None] | None = None
        self.is_closed = False
        os.set_blocking(file.fileno(), False)

    async def write(self, data: bytes) -> None:
        """Write all the data. Concurrent calls write one after the other."""
        async with self.lock:
            view = memoryview(data)
            while view:
                if self.is_closed:
                    raise RpcError("internal", "the input of the process is closed")
                try:
                    view = view[os.write(self.file.fileno(), view) :]
                except (BlockingIOError, InterruptedError):
                    await self.wait_for_room()
                except OSError as error:
                    raise RpcError("internal", "the process has closed its input") from error

    async def wait_for_room(self) -> None:
        room = self.room = self.loop.create_future()
        self.loop.add_writer(self.file.fileno(), self.wake_up)
        try:
            await room
        finally:
            self.room = None
            if not self.is_closed:
                self.loop.remove_writer(self.file.fileno())

    def wake_up(self) -> None:
        if self.room and not self.room.done():
            self.room.set_result(None)

    def close(self) -> None:
        """Close the input; a call that waits for room fails."""
        if not self.is_closed:
            if self.room:
                self.loop.remove_writer(self.file.fileno())
            self.is_closed = True
            self.file.close()
            self.wake_up()


class Process:
    """A process that a client started. It ends for clients when it has exited and its output has been read."""

    def __init__(self, popen: Popen[bytes], config: Message, tag: str | None, terminal: BinaryIO | None):
        self.popen = popen
        self.pid = popen.pid
        self.config = config
        self.tag = tag
        self.terminal = terminal
        self.loop = asyncio.get_running_loop()
        self.subscriptions: set[Subscription] = set()
        self.started_at = self.loop.time()
        self.exit_status: int | None = None
        self.end_event: bytes | None = None
        self.last_output_at = 0.0
        self.on_end: Any = None
        if terminal is not None:
            self.input: InputWriter | None = InputWriter(terminal)
            self.outputs = [OutputReader(self, os.fdopen(os.dup(terminal.fileno()), "rb", buffering=0), "pty")]
        else:
            assert popen.stdout
            assert popen.stderr
            self.input = InputWriter(popen.stdin) if popen.stdin else None  # type: ignore[arg-type]
            self.outputs = [OutputReader(self, popen.stdout, "stdout"), OutputReader(self, popen.stderr, "stderr")]  # type: ignore[arg-type]

    def subscribe(self) -> Subscription:
        """Return a subscription to the events from now on."""
        subscription = Subscription(self)
        if self.end_event is None:
            self.subscriptions.add(subscription)
        else:
            subscription.put(self.end_event)
            subscription.complete()
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        self.subscriptions.discard(subscription)
        self.resume_output()

    def publish_output(self, kind: str, piece: bytes) -> None:
        """Pass a piece of output to the clients; nobody keeps it when there are none."""
        self.last_output_at = self.loop.time()
        if not self.subscriptions:
            return
        event = b'{"event":{"data":{"%b":"%b"}}}' % (kind.encode(), base64.b64encode(piece))
        for subscription in self.subscriptions:
            subscription.put(event)
        if self.is_congested:
            for output in self.outputs:
                output.pause()

    @property
    def is_congested(self) -> bool:
        return any(subscription.is_congested for subscription in self.subscriptions)

    def resume_output(self) -> None:
        """Read the output again when every client has room."""
        if not self.is_congested:
            for output in self.outputs:
                output.resume()

    def on_output_end(self) -> None:
        if self.exit_status is not None and all(output.is_closed for output in self.outputs):
            self.finish()

    def on_exit(self, wait_status: int) -> None:
        """Record the exit. The process stays in the list until its output has been read."""
        self.exit_status = wait_status
        self.popen.returncode = os.waitstatus_to_exitcode(wait_status)
        self.last_output_at = self.loop.time()
        self.on_output_end()
        if self.end_event is None:
            self.loop.call_later(OUTPUT_LINGER_SECONDS, self.check_linger)

    def check_linger(self) -> None:
        """End the process for its clients when only other processes have its output open and they write nothing."""
        if self.end_event is not None:
            return
        silence = self.loop.time() - self.last_output_at
        if silence >= OUTPUT_LINGER_SECONDS and not self.is_congested:
            self.finish()
        else:
            delay = OUTPUT_LINGER_SECONDS - silence if not self.is_congested else OUTPUT_LINGER_SECONDS
            self.loop.call_later(max(delay, 0.01), self.check_linger)

    def finish(self) -> None:
        """Report the end to the clients. What processes that it left behind still write is dropped."""
        if self.end_event is not None:
            return
        assert self.exit_status is not None
        self.end_event = encode_message({"event": {"end": describe_exit(self.exit_status)}})
        if self.input:
            self.input.close()
        if self.terminal:
            for output in self.outputs:
                output.close()
        for subscription in self.subscriptions:
            subscription.put(self.end_event)
            subscription.complete()
        self.subscriptions.clear()
        self.resume_output()
        self.on_end(self)

    def send_signal(self, number: int) -> None:
        if self.exit_status is None:  # otherwise the pid may already belong to another process
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def set_terminal_size(self, columns: int, rows: int) -> None:
        if self.terminal is None or self.input is None or self.input.is_closed:
            raise RpcError("internal", "the process has no terminal")
        set_terminal_size(self.terminal.fileno(), columns, rows)


def set_terminal_size(descriptor: int, columns: int, rows: int) -> None:
    size = struct.pack("HHHH", min(rows, 65535), min(columns, 65535), 0, 0)
    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, size)


def describe_exit(wait_status: int) -> Message:
    """Return the fields of the end event for a status of waitpid."""
    code = os.waitstatus_to_exitcode(wait_status)
    if code < 0:
        name = signal.strsignal(-code) or str(-code)
        text = f"signal: {name.lower()}"
        return {"exitCode": -1, "exited": False, "status": text, "error": text}
    text = f"exit status {code}"
    return {"exitCode": code, "exited": True, "status": text, **({"error": text} if code else {})}
