"""One console stream of the event loop: a browser on one side, a VNC or SSH server (the *upstream*) on the other.

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
    """One open console. A subclass implements `on_websocket_open`, `on_browser_message` and `on_upstream_data`, and
    calls `mark_opened`. Everything but `prepare_upstream` runs on the event loop's thread and must not block.

    `on_opened(stream)` is called once, when the user sees the machine; `on_closed(stream)` once at the end, also
    without `on_opened`. Both must return at once.
    """

    protocol = ""
    accepts_text = False

    def __init__(
        self,
        connection,
        handshake,
        target,
        *,
        labels=None,
        idle_timeout_seconds=1800,
        max_duration_seconds=28800,
        on_opened=None,
        on_closed=None,
    ):
        self.connection, self.handshake, self.target = connection, handshake, target
        self.labels = labels or {}
        """Whose console it is: the labels by which it is found and counted."""
        self.browser = BrowserSocket(self.protocol, self.accepts_text)
        self.idle_timeout_seconds, self.max_duration_seconds = idle_timeout_seconds, max_duration_seconds
        self.on_opened, self.on_closed = on_opened, on_closed
        self.event_loop = self.upstream = None
        self.upstream_queue = deque()
        self.bytes_in = self.bytes_out = 0
        """Bytes from the browser and to it."""
        self.created_at = self.used_at = self.last_sent_at = time.monotonic()
        self.opened_at = self.close_reason = self.abort_at = None
        self.is_aborted = False

    # --- what subclasses implement

    def prepare_upstream(self):
        """Do what may block. Called on another thread, before the stream is added to the event loop."""

    def on_websocket_open(self):
        """Called when the WebSocket is open."""

    def on_browser_message(self, message):
        """Handle a message from the browser, usually by `send_to_upstream`."""

    def on_upstream_data(self, data):
        """Handle data of the upstream, usually by `send_to_browser`. The buffer is valid only until the next read."""

    def on_upstream_closed(self):
        """Close the console: the upstream closed the connection."""
        self.close(close_codes.FINISHED)

    def is_upstream_connected(self):
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
        self.next_ping_at = time.monotonic() + event_loop.ping_interval_seconds
        self.run_guarded(self.open_websocket)

    def open_websocket(self):
        self.connection.setblocking(False)
        disable_nagle(self.connection)
        limit_send_buffer(self.connection)
        self.browser.accept_handshake(self.connection, self.handshake)
        if self.close_reason:  # it was closed before it began
            close_reason, self.close_reason = self.close_reason, None
            self.close(close_reason)
        else:
            self.on_websocket_open()

    def on_browser_event(self, event):
        self.run_guarded(self.handle_browser_event, event)

    def on_upstream_event(self, event):
        self.run_guarded(self.handle_upstream_event, event)

    def run_guarded(self, function, *args):
        """Run the function. An exception in it closes this stream and no other."""
        try:
            function(*args)
            self.update_watched_events()
        except MessageTooBig:
            self.browser.discard_input()
            self.close(close_codes.TOO_BIG)
        except OSError as error:
            log.debug("console_browser_lost", error=str(error), **self.labels)
            self.abort(close_codes.CLIENT_LOST)
        except Exception:
            log.exception("console_failed", **self.labels)
            self.close(close_codes.FAILED)

    def handle_browser_event(self, event):
        if event & WRITE and self.browser.has_unsent:
            # There is room again, so the browser has acknowledged bytes.
            self.browser.last_activity_at = time.monotonic()
            self.browser.flush()
        if not event & ~WRITE:
            return
        for message in self.browser.receive_messages():
            if self.close_reason is None:
                self.bytes_in += len(message)
                if self.is_activity(message):
                    self.used_at = time.monotonic()
                self.on_browser_message(message)
        if self.browser.is_disconnected:
            self.abort(close_codes.CLIENT_CLOSED if self.browser.is_closed_cleanly else close_codes.CLIENT_LOST)
        elif self.browser.is_closing:
            self.close(close_codes.CLIENT_CLOSED if self.browser.is_closed_cleanly else close_codes.BROKEN)

    def handle_upstream_event(self, event):
        if self.upstream is None or self.close_reason:
            return
        try:
            if not self.is_upstream_connected():
                return
            if event & WRITE:
                self.flush_upstream_queue()
            data = self.receive_from_upstream() if event & ~WRITE and not self.browser.has_unsent else None
        except BlockingIOError:
            return
        except OSError as error:
            self.on_upstream_lost(error)
            return
        if data:
            self.on_upstream_data(data)
        elif data is not None:
            self.on_upstream_closed()

    def receive_from_upstream(self):
        """Return the next bytes of the upstream. They are in the event loop's buffer, valid until the next read."""
        return self.event_loop.read_buffer[: self.upstream.recv_into(self.event_loop.read_buffer)]

    def on_upstream_lost(self, error):
        log.info("console_upstream_lost", error=str(error), **self.labels)
        self.close(close_codes.LOST)

    def send_to_upstream(self, data):
        """Send to the upstream, now or as soon as it takes more."""
        if not self.upstream_queue:
            self.last_sent_at = time.monotonic()
        self.upstream_queue.append(data)
        try:
            self.flush_upstream_queue()
        except OSError as error:
            self.on_upstream_lost(error)

    def flush_upstream_queue(self):
        try:
            while self.upstream_queue:
                data = self.upstream_queue[0]
                unsent = data[self.upstream.send(data) :]
                self.last_sent_at = time.monotonic()
                if unsent:
                    self.upstream_queue[0] = unsent
                else:
                    self.upstream_queue.popleft()
        except BlockingIOError:
            pass

    def send_to_browser(self, data, **options):
        self.bytes_out += len(data)
        self.browser.send_message(data, **options)

    def mark_opened(self):
        self.opened_at = time.monotonic()
        if self.on_opened:
            self.on_opened(self)

    def update_watched_events(self):
        """Register the events this stream waits for. A side that is not to be read is not registered for reading at
        all: epoll would report its hang-up over and over."""
        if self.is_aborted:
            return
        read = READ if self.close_reason or not self.upstream_queue else 0
        self.event_loop.watch(self.connection, read | (WRITE if self.browser.has_unsent else 0), self.on_browser_event)
        if self.upstream is not None:
            self.event_loop.watch(self.upstream, self.get_upstream_events(), self.on_upstream_event)

    def get_upstream_events(self):
        return (0 if self.browser.has_unsent else READ) | (WRITE if self.upstream_queue else 0)

    def check_timeouts(self, now):
        silence_timeout_seconds = self.event_loop.silence_timeout_seconds
        if self.close_reason:
            if now > self.abort_at:
                self.abort(self.close_reason)
        elif self.upstream_queue and now - self.last_sent_at > silence_timeout_seconds:
            self.close(close_codes.STUCK)
        elif not self.upstream_queue and now - self.browser.last_activity_at > silence_timeout_seconds:
            self.abort(close_codes.CLIENT_LOST)
        elif now - self.created_at > self.max_duration_seconds:
            self.close(close_codes.EXPIRED)
        elif now - self.used_at > self.idle_timeout_seconds:
            self.close(close_codes.UNUSED)
        elif now >= self.next_ping_at and not self.browser.has_unsent:
            self.next_ping_at = now + self.event_loop.ping_interval_seconds
            self.browser.send_message(b"", PING)

    def close(self, close_reason: CloseReason):
        """Send what is queued for the browser, then the close frame with the reason; the browser has
        `close_timeout_seconds` to answer."""
        if self.close_reason or self.is_aborted:
            return
        self.close_reason = close_reason
        if self.event_loop is None:
            return
        self.abort_at = time.monotonic() + self.event_loop.close_timeout_seconds
        self.close_upstream()
        try:
            if self.browser.is_disconnected:
                self.abort(close_reason)
            else:
                self.browser.send_close(close_reason.code, close_reason.frame_text)
        except OSError:
            self.abort(close_reason)
        self.update_watched_events()

    def abort(self, close_reason: CloseReason):
        """Close the connection at once. A close reason that was set earlier stays."""
        if self.is_aborted:
            return
        self.is_aborted, self.close_reason = True, self.close_reason or close_reason
        self.close_upstream()
        self.event_loop.remove_stream(self)
        self.connection.close()
        if self.on_closed:
            self.on_closed(self)


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
