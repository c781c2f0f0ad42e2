"""One console as the pump carries it: a browser on one side, a screen or a shell on the other (the *far* side).

Bytes wait in one place a direction: one read of the far side until the browser takes it, and about one read of the
browser until the far side takes it. A side is read only while the other keeps up, so nobody can make the panel's memory
grow.
"""

import select
import socket
import time
from collections import deque

import structlog

from consoles import close_codes
from consoles.browser import PING, BrowserSocket, MessageTooBig
from consoles.close_codes import CloseReason

log = structlog.get_logger()

READ, WRITE = select.EPOLLIN, select.EPOLLOUT
MAX_UNSENT_BYTES = 1 << 17
"""Bytes the kernel takes for a browser before the browser's side has acknowledged them."""


class ConsoleStream:
    """A kind of console fills in `begin`, `take`, `give`, and says when it is `ready`. All runs on the pump's thread
    and must not wait. Durations are seconds.

    `opened(line)` is called once, when the person sees the machine; `ended(line)` once at the end, also without
    `opened`. Both must return at once.
    """

    protocol = ""
    takes_text = False

    def __init__(
        self, connection, handshake, target, *, labels=None, idle=1800, longest=28800, opened=None, ended=None
    ):
        self.connection, self.handshake, self.target = connection, handshake, target
        self.labels = labels or {}
        """Whose console it is, to find it by."""
        self.browser = BrowserSocket(self.protocol, self.takes_text)
        self.idle, self.longest = idle, longest
        self.opened, self.ended = opened, ended
        self.event_loop = self.upstream = None
        self.upstream_queue = deque()
        self.up = self.down = 0
        """Bytes from and to the browser."""
        self.created_at = self.used_at = self.last_sent_at = time.monotonic()
        self.opened_at = self.close_reason = self.abort_at = None
        self.is_aborted = False

    # --- what a kind of console fills in

    def prepare(self):
        """What may have to wait. Called before the pump takes the line, on another thread."""

    def begin(self):
        """The WebSocket stands."""

    def take(self, message):
        """A message of the browser, on its way to the far side: `send` it on."""

    def give(self, data):
        """What was read from the far side, on its way to the browser: `show` it. It holds until the next read only."""

    def on_upstream_closed(self):
        """The far side has nothing more to say."""
        self.end(close_codes.FINISHED)

    def connected(self):
        """The far side, if it had to be called, has answered; otherwise OSError."""
        return True

    def is_activity(self, message):
        """Whether somebody sits there. What a browser sends of its own accord does not count."""
        return True

    def close_upstream(self):
        if self.upstream is not None:
            self.event_loop.unregister(self.upstream)
            self.upstream.close()
            self.upstream = None

    # --- what the pump calls

    def start(self, pump):
        self.event_loop = pump
        self.next_ping_at = time.monotonic() + pump.ping
        self.guard(self.open)

    def open(self):
        self.connection.setblocking(False)
        disable_nagle(self.connection)
        limit_send_buffer(self.connection)
        self.browser.open(self.connection, self.handshake)
        if self.close_reason:  # it was closed before it began
            ending, self.close_reason = self.close_reason, None
            self.end(ending)
        else:
            self.begin()

    def on_client_event(self, event):
        self.guard(self.read_client, event)

    def on_upstream_event(self, event):
        self.guard(self.read_upstream, event)

    def guard(self, work, *args):
        """Does a piece of work; what goes wrong in it ends this line and no other."""
        try:
            work(*args)
            self.watch()
        except MessageTooBig:
            self.browser.stop_listening()
            self.end(close_codes.TOO_BIG)
        except OSError as error:
            log.debug("console_browser_lost", error=str(error), **self.labels)
            self.drop(close_codes.CLIENT_LOST)
        except Exception:
            log.exception("console_failed", **self.labels)
            self.end(close_codes.FAILED)

    def read_client(self, event):
        if event & WRITE and self.browser.unsent:
            self.browser.last_heard_at = time.monotonic()  # there is room again: its side has acknowledged something
            self.browser.flush()
        if not event & ~WRITE:
            return
        for message in self.browser.messages():
            if self.close_reason is None:
                self.up += len(message)
                if self.is_activity(message):
                    self.used_at = time.monotonic()
                self.take(message)
        if self.browser.gone:
            self.drop(close_codes.CLIENT_CLOSED if self.browser.left else close_codes.CLIENT_LOST)
        elif self.browser.closing:
            self.end(close_codes.CLIENT_CLOSED if self.browser.left else close_codes.BROKEN)

    def read_upstream(self, event):
        if self.upstream is None or self.close_reason:
            return
        try:
            if not self.connected():
                return
            if event & WRITE:
                self.push()
            data = self.read() if event & ~WRITE and not self.browser.unsent else None
        except BlockingIOError:
            return
        except OSError as error:
            self.on_upstream_lost(error)
            return
        if data:
            self.give(data)
        elif data is not None:
            self.on_upstream_closed()

    def read(self):
        """What the far side says next. It lies in the pump's room until the next read."""
        return self.event_loop.room[: self.upstream.recv_into(self.event_loop.room)]

    def on_upstream_lost(self, error):
        log.info("console_far_side_lost", error=str(error), **self.labels)
        self.end(close_codes.LOST)

    def send(self, data):
        """To the far side, now or when it takes more."""
        if not self.upstream_queue:
            self.last_sent_at = time.monotonic()
        self.upstream_queue.append(data)
        try:
            self.push()
        except OSError as error:
            self.on_upstream_lost(error)

    def push(self):
        try:
            while self.upstream_queue:
                data = self.upstream_queue[0]
                rest = data[self.upstream.send(data) :]
                self.last_sent_at = time.monotonic()
                if rest:
                    self.upstream_queue[0] = rest
                else:
                    self.upstream_queue.popleft()
        except BlockingIOError:
            pass

    def show(self, data, **how):
        self.down += len(data)
        self.browser.put(data, **how)

    def ready(self):
        self.opened_at = time.monotonic()
        if self.opened:
            self.opened(self)

    def watch(self):
        """Tells the pump what this line waits for. A side that is not to be read is not watched at all: its hanging up
        would be reported over and over."""
        if self.is_aborted:
            return
        read = READ if self.close_reason or not self.upstream_queue else 0
        self.event_loop.watch(self.connection, read | (WRITE if self.browser.unsent else 0), self.on_client_event)
        if self.upstream is not None:
            self.event_loop.watch(self.upstream, self.upstream_interest(), self.on_upstream_event)

    def upstream_interest(self):
        return (0 if self.browser.unsent else READ) | (WRITE if self.upstream_queue else 0)

    def tick(self, now, silence):
        if self.close_reason:
            if now > self.abort_at:
                self.drop(self.close_reason)
        elif self.upstream_queue and now - self.last_sent_at > silence:
            self.end(close_codes.STUCK)
        elif not self.upstream_queue and now - self.browser.last_heard_at > silence:
            self.drop(close_codes.CLIENT_LOST)
        elif now - self.created_at > self.longest:
            self.end(close_codes.EXPIRED)
        elif now - self.used_at > self.idle:
            self.end(close_codes.UNUSED)
        elif now >= self.next_ping_at and not self.browser.unsent:
            self.next_ping_at = now + self.event_loop.ping
            self.browser.put(b"", PING)

    def end(self, ending: CloseReason):
        """What is on its way to the browser still goes out, then the reason; then the browser may answer."""
        if self.close_reason or self.is_aborted:
            return
        self.close_reason = ending
        if self.event_loop is None:
            return
        self.abort_at = time.monotonic() + self.event_loop.goodbye
        self.close_upstream()
        try:
            if self.browser.gone:
                self.drop(ending)
            else:
                self.browser.put_close(ending.code, ending.reason)
        except OSError:
            self.drop(ending)
        self.watch()

    def drop(self, ending: CloseReason):
        """Closes the connection as it is. The ending that was decided first is the one that counts."""
        if self.is_aborted:
            return
        self.is_aborted, self.close_reason = True, self.close_reason or ending
        self.close_upstream()
        self.event_loop.leave(self)
        self.connection.close()
        if self.ended:
            self.ended(self)


def disable_nagle(connection):
    """What is written goes out now. A proxy in front may come in over a Unix socket, which knows no delay."""
    if connection.family != socket.AF_UNIX:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def limit_send_buffer(connection):
    """The kernel takes little that it cannot send yet. So a slow browser sees what is, not what was; and there is room
    again often enough to tell slow from gone."""
    if connection.family != socket.AF_UNIX:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, MAX_UNSENT_BYTES)


def set_peer_timeout(connection, seconds):
    """A peer that acknowledges nothing for so long is gone: reading it fails. The kernel asks when nothing is said."""
    asks = max(1, seconds // 4)
    options = {socket.TCP_KEEPIDLE: asks, socket.TCP_KEEPINTVL: asks, socket.TCP_USER_TIMEOUT: seconds * 1000}
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in options.items():
        connection.setsockopt(socket.IPPROTO_TCP, option, value)
