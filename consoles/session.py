"""One console stream, as the event loop carries it: a browser on one side, a VNC or SSH server (the *upstream*) on the
other.

Bytes wait in one place for each direction: one read of the upstream until the browser takes it, and about one read of
the browser until the upstream takes it. A side is read only while the other keeps up, so memory use is bounded.
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
"""Maximum bytes that wait unsent in the kernel's send buffer for a browser."""


class ConsoleStream:
    """One open console. A subclass implements `begin`, `take` and `give`, and calls `ready`. Everything but `prepare`
    runs on the event loop's thread and must not block. Durations are seconds.

    `opened(stream)` is called once, when the user sees the machine; `ended(stream)` once at the end, also without
    `opened`. Both must return at once.
    """

    protocol = ""
    takes_text = False

    def __init__(
        self, connection, handshake, target, *, labels=None, idle=1800, longest=28800, opened=None, ended=None
    ):
        self.connection, self.handshake, self.target = connection, handshake, target
        self.labels = labels or {}
        """Whose console it is: the labels by which it is found and counted."""
        self.browser = BrowserSocket(self.protocol, self.takes_text)
        self.idle, self.longest = idle, longest
        self.opened, self.ended = opened, ended
        self.event_loop = self.upstream = None
        self.upstream_queue = deque()
        self.up = self.down = 0
        """Bytes from the browser (`up`) and to it (`down`)."""
        self.created_at = self.used_at = self.last_sent_at = time.monotonic()
        self.opened_at = self.close_reason = self.abort_at = None
        self.is_aborted = False

    # --- what subclasses implement

    def prepare(self):
        """Do what may block. Called on another thread, before the stream is added to the event loop."""

    def begin(self):
        """Called when the WebSocket is open."""

    def take(self, message):
        """Handle a message from the browser, usually by `send`."""

    def give(self, data):
        """Handle data read from the upstream, usually by `show`. The buffer is valid until the next read only."""

    def on_upstream_closed(self):
        """End the console: the upstream closed the connection."""
        self.end(close_codes.FINISHED)

    def connected(self):
        """Return whether the upstream is connected. Raises OSError when connecting failed."""
        return True

    def is_activity(self, message):
        """Return whether the user caused this message. What a browser sends by itself does not count."""
        return True

    def close_upstream(self):
        if self.upstream is not None:
            self.event_loop.unregister(self.upstream)
            self.upstream.close()
            self.upstream = None

    # --- what the event loop calls

    def start(self, event_loop):
        self.event_loop = event_loop
        self.next_ping_at = time.monotonic() + event_loop.ping
        self.guard(self.open)

    def open(self):
        self.connection.setblocking(False)
        disable_nagle(self.connection)
        limit_send_buffer(self.connection)
        self.browser.open(self.connection, self.handshake)
        if self.close_reason:  # it was closed before it began
            close_reason, self.close_reason = self.close_reason, None
            self.end(close_reason)
        else:
            self.begin()

    def on_client_event(self, event):
        self.guard(self.read_client, event)

    def on_upstream_event(self, event):
        self.guard(self.read_upstream, event)

    def guard(self, work, *args):
        """Run `work`. An exception in it ends this stream and no other."""
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
            self.browser.last_heard_at = time.monotonic()  # there is room again, so the browser has acknowledged bytes
            self.browser.flush()
        if not event & ~WRITE:
            return
        for message in self.browser.messages():
            if self.close_reason is None:
                self.up += len(message)
                if self.is_activity(message):
                    self.used_at = time.monotonic()
                self.take(message)
        if self.browser.is_disconnected:
            self.drop(close_codes.CLIENT_CLOSED if self.browser.is_closed_cleanly else close_codes.CLIENT_LOST)
        elif self.browser.closing:
            self.end(close_codes.CLIENT_CLOSED if self.browser.is_closed_cleanly else close_codes.BROKEN)

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
        """Return the next bytes of the upstream. They are in the event loop's buffer, valid until the next read."""
        return self.event_loop.room[: self.upstream.recv_into(self.event_loop.room)]

    def on_upstream_lost(self, error):
        log.info("console_upstream_lost", error=str(error), **self.labels)
        self.end(close_codes.LOST)

    def send(self, data):
        """Send to the upstream, now or as soon as it takes more."""
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

    def show(self, data, **options):
        self.down += len(data)
        self.browser.send_message(data, **options)

    def ready(self):
        self.opened_at = time.monotonic()
        if self.opened:
            self.opened(self)

    def watch(self):
        """Register the events this stream waits for. A side that is not to be read is not registered for reading at
        all: epoll would report its hang-up over and over."""
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
            self.browser.send_message(b"", PING)

    def end(self, close_reason: CloseReason):
        """Send what is queued for the browser, then the close frame with the reason; the browser has `goodbye` seconds
        to answer."""
        if self.close_reason or self.is_aborted:
            return
        self.close_reason = close_reason
        if self.event_loop is None:
            return
        self.abort_at = time.monotonic() + self.event_loop.goodbye
        self.close_upstream()
        try:
            if self.browser.is_disconnected:
                self.drop(close_reason)
            else:
                self.browser.put_close(close_reason.code, close_reason.reason)
        except OSError:
            self.drop(close_reason)
        self.watch()

    def drop(self, close_reason: CloseReason):
        """Close the connection at once. A close reason that was set earlier stays."""
        if self.is_aborted:
            return
        self.is_aborted, self.close_reason = True, self.close_reason or close_reason
        self.close_upstream()
        self.event_loop.leave(self)
        self.connection.close()
        if self.ended:
            self.ended(self)


def disable_nagle(connection):
    """Send writes at once. Unix sockets, which a proxy in front may use, have no such option."""
    if connection.family != socket.AF_UNIX:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def limit_send_buffer(connection):
    """Limit the kernel's unsent bytes, so slow clients get fresh frames instead of a backlog, and dead peers are
    detected."""
    if connection.family != socket.AF_UNIX:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, MAX_UNSENT_BYTES)


def set_peer_timeout(connection, seconds):
    """Make reads fail when the peer acknowledges nothing for `seconds`. The kernel sends keepalives on an idle
    connection."""
    interval = max(1, seconds // 4)
    options = {socket.TCP_KEEPIDLE: interval, socket.TCP_KEEPINTVL: interval, socket.TCP_USER_TIMEOUT: seconds * 1000}
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in options.items():
        connection.setsockopt(socket.IPPROTO_TCP, option, value)
