"""One browser's stream of server-sent events, on a connection whose request the web process has read.

Everything runs on the event loop's thread. The stream ends when the browser leaves, does not read, or when it is
closed; a browser that lost it opens another one.
"""

import select
import socket
import time

import structlog

from consoles.session import disable_nagle, set_peer_timeout

log = structlog.get_logger()

READ, WRITE = select.EPOLLIN, select.EPOLLOUT

MAX_UNSENT_BYTES = 1 << 18
"""Bytes that may wait for a browser that does not read. The stream then ends, and the browser reloads what it shows."""

RESPONSE_HEAD = (
    b"HTTP/1.1 200 OK\r\n"
    b"Content-Type: text/event-stream\r\n"
    b"Cache-Control: no-store\r\n"
    b"X-Accel-Buffering: no\r\n"  # a reverse proxy shall pass on each event at once
    b"X-Content-Type-Options: nosniff\r\n"
    b"Connection: close\r\n\r\n"
)
COMMENT = b":\n\n"
"""A line that browsers ignore. It keeps proxies from closing a quiet connection, and finds browsers that are gone."""


class EventStream:
    def __init__(self, connection, session_id, since, on_closed):
        self.connection, self.session_id, self.since, self.on_closed = connection, session_id, since, on_closed
        self.viewer = self.event_loop = None
        self.unsent = b""
        self.is_ended = False

    def start(self, event_loop):
        self.event_loop = event_loop
        if self.is_ended:  # before it began
            event_loop.remove_stream(self)
            return
        self.next_comment_at = time.monotonic() + event_loop.ping_interval_seconds
        self.run_guarded(self.open)

    def open(self):
        self.connection.setblocking(False)
        disable_nagle(self.connection)
        if self.connection.family != socket.AF_UNIX:
            set_peer_timeout(self.connection, self.event_loop.silence_timeout_seconds)
        self.send(RESPONSE_HEAD)

    def run_guarded(self, function, *args):
        """Run the function. An exception in it ends this stream and no other."""
        try:
            function(*args)
        except OSError:
            self.abort()
        except Exception:
            log.exception("event_stream_failed")
            self.abort()

    def send(self, data):
        """Send the bytes now, or as soon as the browser takes them."""
        if self.is_ended:
            return
        self.unsent += data
        if len(self.unsent) > MAX_UNSENT_BYTES:
            self.abort()
            return
        self.flush()

    def flush(self):
        try:
            self.unsent = self.unsent[self.connection.send(self.unsent) :]
        except BlockingIOError:
            pass
        except OSError:
            self.abort()
            return
        self.event_loop.watch(self.connection, READ | (WRITE if self.unsent else 0), self.on_event)

    def on_event(self, event):
        self.run_guarded(self.handle_event, event)

    def handle_event(self, event):
        if event & ~WRITE and not self.connection.recv_into(self.event_loop.read_buffer):
            self.abort()
        elif event & WRITE:
            self.flush()

    def check_timeouts(self, now):
        if now >= self.next_comment_at:
            self.next_comment_at = now + self.event_loop.ping_interval_seconds
            self.send(COMMENT)

    def close(self, close_reason=None):
        self.abort(close_reason)

    def abort(self, close_reason=None):
        """End the stream. Events have no reason: the browser asks again, and learns whether it may."""
        if self.is_ended:
            return
        self.is_ended = True
        if self.event_loop:
            self.event_loop.remove_stream(self)
        self.connection.close()
        self.on_closed(self)
