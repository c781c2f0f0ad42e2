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

CHUNK = 1 << 18
"""Bytes of a read of a machine, at most: the fewer pieces a picture is cut into, the less each byte costs."""

LAST_REAP = 2
"""Seconds that processes which were killed with their lines have to be gone."""


class Pump(threading.Thread):
    """`ping` and `silence` are seconds: a browser is asked whether it is there every `ping`, and given up when nothing
    was heard of it for `silence`. `goodbye` is how long it may take to answer a close."""

    def __init__(self, ping=20, silence=50, goodbye=3):
        super().__init__(name="console-pump", daemon=True)
        self.ping, self.silence, self.goodbye = ping, silence, goodbye
        self.lines = set()
        self.epoll = select.epoll()
        self.watched = {}
        """By descriptor: what is waited for, and who is called."""
        self.room = memoryview(bytearray(CHUNK))
        """Where all lines read to, one after the other: room made for each read would cost more than reading a key."""
        self.calls = deque()
        self.wakeup = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        weakref.finalize(self, os.close, self.wakeup)  # not when the thread ends: somebody may be about to write to it
        self.epoll.register(self.wakeup, select.EPOLLIN)
        self.ending = self.until = None

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
        self.call(self.begin_to_stop, ending, time.monotonic() + within)

    # --- on the pump's thread

    def run(self):
        beat = min(0.5, self.ping / 4)
        next_tick = 0.0
        while not self.stopped():
            for descriptor, event in self.epoll.poll(beat, 64):
                if descriptor == self.wakeup:
                    os.eventfd_read(self.wakeup)
                elif descriptor in self.watched:
                    self.carefully(self.watched[descriptor][1], event)
            while self.calls:
                function, args = self.calls.popleft()
                self.carefully(function, *args)
            if (now := time.monotonic()) >= next_tick:
                next_tick = now + beat
                for line in list(self.lines):
                    self.carefully(line.guard, line.tick, now, self.silence)
        self.epoll.close()

    def carefully(self, function, *args):
        try:
            function(*args)
        except Exception:
            log.exception("console_pump_failed")

    def admit(self, line):
        self.lines.add(line)
        line.start(self)
        if self.ending:
            line.end(self.ending)

    def begin_to_stop(self, ending, until):
        self.ending, self.until = ending, until
        for line in list(self.lines):
            line.end(ending)

    def stopped(self):
        if self.until is None:
            return False
        late = time.monotonic() - self.until
        if late > 0:
            for line in list(self.lines):
                line.drop(self.ending)
        return not self.lines and not self.calls and (not self.watched or late > LAST_REAP)

    def watch(self, connection, events, call):
        descriptor = connection.fileno()
        if descriptor < 0:
            return
        before = self.watched.get(descriptor, (0, None))[0]
        if events == before:
            return
        if not events:
            self.epoll.unregister(descriptor)
            del self.watched[descriptor]
            return
        (self.epoll.modify if before else self.epoll.register)(descriptor, events)
        self.watched[descriptor] = (events, call)

    def forget(self, connection):
        self.watch(connection, 0, None)

    def leave(self, line):
        self.forget(line.connection)
        self.lines.discard(line)
