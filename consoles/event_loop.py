"""One thread that carries any number of lines: an idle console costs a few KiB and no thread."""

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
"""Bytes of a read of a machine, at most: the fewer pieces a picture is cut into, the less each byte costs."""

REAP_GRACE_SECONDS = 2
"""Seconds that processes which were killed with their lines have to be gone."""


class EventLoop(threading.Thread):
    """`ping` and `silence` are seconds: a browser is asked whether it is there every `ping`, and given up when nothing
    was heard of it for `silence`. `goodbye` is how long it may take to answer a close."""

    def __init__(self, ping=20, silence=50, goodbye=3):
        super().__init__(name="console-pump", daemon=True)
        self.ping, self.silence, self.goodbye = ping, silence, goodbye
        self.lines = set()
        self.epoll = select.epoll()
        self.registered = {}
        """By descriptor: what is waited for, and who is called."""
        self.room = memoryview(bytearray(MAX_READ_BYTES))
        """Where all lines read to, one after the other: room made for each read would cost more than reading a key."""
        self.calls = deque()
        self.wakeup = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        weakref.finalize(self, os.close, self.wakeup)  # not when the thread ends: somebody may be about to write to it
        self.epoll.register(self.wakeup, select.EPOLLIN)
        self.close_reason = self.until = None

    # --- from any thread

    def call(self, function, *args):
        """Lets the pump's thread do it, soon."""
        self.calls.append((function, args))
        with contextlib.suppress(BlockingIOError):
            os.eventfd_write(self.wakeup, 1)

    def add(self, line):
        self.call(self.admit, line)

    def stop(self, ending, within):
        """Every browser is told the ending and has `within` seconds to answer; then the thread ends."""
        self.call(self.begin_stop, ending, time.monotonic() + within)

    # --- on the pump's thread

    def run(self):
        beat = min(0.5, self.ping / 4)
        next_tick = 0.0
        while not self.stopped():
            for descriptor, event in self.epoll.poll(beat, 64):
                if descriptor == self.wakeup:
                    os.eventfd_read(self.wakeup)
                elif descriptor in self.registered:
                    self.run_safely(self.registered[descriptor][1], event)
            while self.calls:
                function, args = self.calls.popleft()
                self.run_safely(function, *args)
            if (now := time.monotonic()) >= next_tick:
                next_tick = now + beat
                for line in list(self.lines):
                    self.run_safely(line.guard, line.tick, now, self.silence)
        self.epoll.close()

    def run_safely(self, function, *args):
        try:
            function(*args)
        except Exception:
            log.exception("console_pump_failed")

    def admit(self, line):
        self.lines.add(line)
        line.start(self)
        if self.close_reason:
            line.end(self.close_reason)

    def begin_stop(self, ending, until):
        self.close_reason, self.until = ending, until
        for line in list(self.lines):
            line.end(ending)

    def stopped(self):
        if self.until is None:
            return False
        late = time.monotonic() - self.until
        if late > 0:
            for line in list(self.lines):
                line.drop(self.close_reason)
        return not self.lines and not self.calls and (not self.registered or late > REAP_GRACE_SECONDS)

    def watch(self, connection, events, call):
        descriptor = connection.fileno()
        if descriptor < 0:
            return
        before = self.registered.get(descriptor, (0, None))[0]
        if events == before:
            return
        if not events:
            self.epoll.unregister(descriptor)
            del self.registered[descriptor]
            return
        (self.epoll.modify if before else self.epoll.register)(descriptor, events)
        self.registered[descriptor] = (events, call)

    def unregister(self, connection):
        self.watch(connection, 0, None)

    def leave(self, line):
        self.unregister(line.connection)
        self.lines.discard(line)
