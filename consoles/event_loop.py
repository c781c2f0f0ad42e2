"""One thread that copies the bytes of any number of consoles: an idle console costs a few KiB and no thread."""

import contextlib
import os
import select
import threading
import time
import weakref
from collections import deque

import structlog

log = structlog.get_logger()

MAX_READ_BYTES = 1 << 18
"""Maximum bytes of one read from a machine. Large reads cost less for each byte of a picture."""

REAP_GRACE_SECONDS = 2
"""Seconds to wait for killed child processes (tunnels) to end."""


class EventLoop(threading.Thread):
    """The thread of all console streams. A browser is pinged at an interval, disconnected when it neither sent nor
    acknowledged anything for `silence_timeout_seconds`, and has `close_timeout_seconds` to answer a close."""

    def __init__(self, ping_interval_seconds=20, silence_timeout_seconds=50, close_timeout_seconds=3):
        super().__init__(name="console-event-loop", daemon=True)
        self.ping_interval_seconds = ping_interval_seconds
        self.silence_timeout_seconds = silence_timeout_seconds
        self.close_timeout_seconds = close_timeout_seconds
        self.streams = set()
        self.epoll = select.epoll()
        self.registered = {}
        """Descriptor → the events that are waited for, and the function to call."""
        self.read_buffer = memoryview(bytearray(MAX_READ_BYTES))
        """The read buffer of all streams, used by one read at a time: allocating one for each read would cost more than
        the read."""
        self.pending_calls = deque()
        self.wakeup_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        weakref.finalize(self, os.close, self.wakeup_fd)  # not at the thread's end: others may write to it
        self.epoll.register(self.wakeup_fd, select.EPOLLIN)
        self.close_reason = self.stop_deadline = None

    # --- from any thread

    def call_soon(self, function, *args):
        """Run the function on the event loop's thread, soon."""
        self.pending_calls.append((function, args))
        with contextlib.suppress(BlockingIOError):
            os.eventfd_write(self.wakeup_fd, 1)

    def add_stream(self, stream):
        self.call_soon(self.start_stream, stream)

    def stop(self, close_reason, timeout_seconds):
        """Close every stream with this reason. Browsers have `timeout_seconds` to answer; then the thread ends."""
        self.call_soon(self.begin_stop, close_reason, time.monotonic() + timeout_seconds)

    # --- on the event loop's thread

    def run(self):
        interval = min(0.5, self.ping_interval_seconds / 4)
        next_tick = 0.0
        while not self.try_stop():
            for descriptor, event in self.epoll.poll(interval, 64):
                if descriptor == self.wakeup_fd:
                    os.eventfd_read(self.wakeup_fd)
                elif descriptor in self.registered:
                    self.run_safely(self.registered[descriptor][1], event)
            while self.pending_calls:
                function, args = self.pending_calls.popleft()
                self.run_safely(function, *args)
            if (now := time.monotonic()) >= next_tick:
                next_tick = now + interval
                for stream in list(self.streams):
                    self.run_safely(stream.run_guarded, stream.check_timeouts, now)
        self.epoll.close()

    def run_safely(self, function, *args):
        try:
            function(*args)
        except Exception:
            log.exception("console_callback_failed")

    def start_stream(self, stream):
        self.streams.add(stream)
        stream.start(self)
        if self.close_reason:
            stream.close(self.close_reason)

    def begin_stop(self, close_reason, deadline):
        self.close_reason, self.stop_deadline = close_reason, deadline
        for stream in list(self.streams):
            stream.close(close_reason)

    def try_stop(self):
        """Return whether the thread may end. After the deadline, abort the streams that are left."""
        if self.stop_deadline is None:
            return False
        late = time.monotonic() - self.stop_deadline
        if late > 0:
            for stream in list(self.streams):
                stream.abort(self.close_reason)
        return not self.streams and not self.pending_calls and (not self.registered or late > REAP_GRACE_SECONDS)

    def watch(self, connection, events, callback):
        descriptor = connection.fileno()
        if descriptor < 0:
            return
        registered_events = self.registered.get(descriptor, (0, None))[0]
        if events == registered_events:
            return
        if not events:
            self.epoll.unregister(descriptor)
            del self.registered[descriptor]
            return
        (self.epoll.modify if registered_events else self.epoll.register)(descriptor, events)
        self.registered[descriptor] = (events, callback)

    def unregister(self, connection):
        self.watch(connection, 0, None)

    def remove_stream(self, stream):
        self.unregister(stream.connection)
        self.streams.discard(stream)
