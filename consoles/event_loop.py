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
    """The thread of all console streams. `ping` and `silence` are seconds: a browser is pinged every `ping` seconds and
    dropped after `silence` seconds without a sign of it. `goodbye` is how many seconds it has to answer a close."""

    def __init__(self, ping=20, silence=50, goodbye=3):
        super().__init__(name="console-pump", daemon=True)
        self.ping, self.silence, self.goodbye = ping, silence, goodbye
        self.lines = set()
        self.epoll = select.epoll()
        self.registered = {}
        """Descriptor → the events that are waited for, and the function to call."""
        self.room = memoryview(bytearray(MAX_READ_BYTES))
        """The read buffer of all streams, used by one read at a time: allocating one for each read would cost more than
        the read."""
        self.calls = deque()
        self.wakeup = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        weakref.finalize(self, os.close, self.wakeup)  # not at the thread's end: others may write to it
        self.epoll.register(self.wakeup, select.EPOLLIN)
        self.close_reason = self.until = None

    # --- from any thread

    def call(self, function, *args):
        """Run the function on the event loop's thread, soon."""
        self.calls.append((function, args))
        with contextlib.suppress(BlockingIOError):
            os.eventfd_write(self.wakeup, 1)

    def add(self, stream):
        self.call(self.admit, stream)

    def stop(self, close_reason, within):
        """Close every stream with this reason. Browsers have `within` seconds to answer; then the thread ends."""
        self.call(self.begin_stop, close_reason, time.monotonic() + within)

    # --- on the event loop's thread

    def run(self):
        interval = min(0.5, self.ping / 4)
        next_tick = 0.0
        while not self.stopped():
            for descriptor, event in self.epoll.poll(interval, 64):
                if descriptor == self.wakeup:
                    os.eventfd_read(self.wakeup)
                elif descriptor in self.registered:
                    self.run_safely(self.registered[descriptor][1], event)
            while self.calls:
                function, args = self.calls.popleft()
                self.run_safely(function, *args)
            if (now := time.monotonic()) >= next_tick:
                next_tick = now + interval
                for stream in list(self.lines):
                    self.run_safely(stream.guard, stream.tick, now, self.silence)
        self.epoll.close()

    def run_safely(self, function, *args):
        try:
            function(*args)
        except Exception:
            log.exception("console_pump_failed")

    def admit(self, stream):
        self.lines.add(stream)
        stream.start(self)
        if self.close_reason:
            stream.end(self.close_reason)

    def begin_stop(self, close_reason, deadline):
        self.close_reason, self.until = close_reason, deadline
        for stream in list(self.lines):
            stream.end(close_reason)

    def stopped(self):
        if self.until is None:
            return False
        late = time.monotonic() - self.until
        if late > 0:
            for stream in list(self.lines):
                stream.drop(self.close_reason)
        return not self.lines and not self.calls and (not self.registered or late > REAP_GRACE_SECONDS)

    def watch(self, connection, events, call):
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
        self.registered[descriptor] = (events, call)

    def unregister(self, connection):
        self.watch(connection, 0, None)

    def leave(self, stream):
        self.unregister(stream.connection)
        self.lines.discard(stream)
