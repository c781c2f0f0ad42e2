"""One client's connection: uvicorn's HTTP protocol, with deadlines, limits and answers of our own.

Uvicorn reads and writes the messages; llhttp (in httptools) refuses what could be read in two ways. This class adds
what neither does: a deadline for the whole head, a limit for pauses, limits for the size of a head, a cap per address,
refusals in the dialect of the path, answers to clients that half-close, and upgrades whose socket is given away.
"""

import asyncio
import functools
import ipaddress
from collections import Counter
from dataclasses import dataclass, field

import httptools
import structlog
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from panel.web import refusals

log = structlog.get_logger()

BODY_PAUSE_SECONDS = 10
"""How long a client may send nothing inside a body."""

KEEP_ALIVE_SECONDS = 15
"""How long an unused connection stays open."""

WRITE_STALL_SECONDS = 30
"""How long a client may take nothing of an answer."""

DRAIN_SECONDS = 30
"""How long the rest of a request that was answered early is read, so that its client can read the answer."""

TARGET_MAX_BYTES = 4094
HEADER_MAX_BYTES = 8190
HEAD_MAX_BYTES = 128 * 1024
HEAD_MAX_FIELDS = 100
PIPELINED_MAX_REQUESTS = 128
EARLY_MAX_BYTES = 64 * 1024


@dataclass
class ConnectionLimits:
    """What the connections of a process share."""

    head_seconds: float = 30
    incomplete_heads_per_address: int = 0
    trusted_proxies: tuple = ()
    incomplete_heads: Counter = field(default_factory=Counter)

    def is_exempt(self, address):
        try:
            found = ipaddress.ip_address(address)
        except ValueError:
            return True
        found = getattr(found, "ipv4_mapped", None) or found
        return any(found in network for network in self.trusted_proxies)


class ConnectionProtocol(HttpToolsProtocol):
    def __init__(self, *args, limits: ConnectionLimits, **options):
        super().__init__(*args, **options)
        self.limits = limits
        self.head_started_at = self.drain_started_at = None
        self.head_bytes = 0
        self.is_reading_head = self.is_counted = self.is_refused = self.is_handed_over = False
        self.body_complete = True
        self.keeps_alive = True
        self.refusal = self.pending_refusal = None
        self.early_data = None
        """Bytes that came after a WebSocket's request; None while there is no such request."""
        self.plain_head = None
        """The head of a request that asks for another upgrade, without that: it is read once more."""
        self.last_data_at = self.stalled_since = self.loop.time()
        self.unsent_bytes = 0

    # --- the connection

    def connection_made(self, transport):
        super().connection_made(transport)
        self.start_head()

    def connection_lost(self, exc):
        self.forget_incomplete_head()
        super().connection_lost(exc)

    def start_head(self):
        if self.head_started_at is None:
            self.head_started_at = self.loop.time()
            self.count_incomplete_head()

    def is_idle(self):
        """Whether no request has begun or waits for its answer."""
        return self.body_complete and (self.cycle is None or self.cycle.response_complete)

    def count_incomplete_head(self):
        """Count this connection with its address, and close it when there are too many."""
        most = self.limits.incomplete_heads_per_address
        if not most or self.is_counted or not self.client or self.limits.is_exempt(self.client[0]):
            return
        self.is_counted = True
        self.limits.incomplete_heads[self.client[0]] += 1
        if self.limits.incomplete_heads[self.client[0]] > most:
            self.transport.abort()

    def forget_incomplete_head(self):
        if self.is_counted:
            self.is_counted = False
            self.limits.incomplete_heads[self.client[0]] -= 1
            if not self.limits.incomplete_heads[self.client[0]]:
                del self.limits.incomplete_heads[self.client[0]]

    def data_received(self, data):
        if self.timeout_keep_alive_task:
            self.timeout_keep_alive_task.cancel()
        self.last_data_at = self.loop.time()
        if self.is_refused or self.pending_refusal or self.transport.is_closing():
            return
        if self.early_data is not None:
            self.early_data += data
            if len(self.early_data) > EARLY_MAX_BYTES:
                self.transport.abort()
            return
        if self.is_reading_head:
            self.head_bytes += len(data)
        elif self.is_idle():
            self.start_head()
        try:
            self.parse(data)
        except httptools.HttpParserError:
            self.refuse(self.refusal or refusals.BAD_REQUEST)
        else:
            if self.is_reading_head and self.head_bytes > HEAD_MAX_BYTES:
                self.refuse(refusals.HEAD_TOO_LARGE)

    def parse(self, data):
        while data:
            try:
                self.parser.feed_data(data)
                return
            except httptools.HttpParserUpgrade as upgrade:
                data = data[upgrade.args[0] :]
            self.parser = httptools.HttpRequestParser(self)
            self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
            if self.plain_head is None:
                self.early_data = data
                self.flow.pause_reading()
                return
            data, self.plain_head = self.plain_head + data, None

    def eof_received(self):
        """Return whether the connection stays open for answers: the client sends nothing more, but may still read."""
        if self.is_refused or self.cycle is None or (self.is_reading_head and self.cycle.response_complete):
            return False
        if not self.body_complete and not self.cycle.response_complete:
            self.loop.call_soon(self.end_incomplete_body)  # a request that has just begun may be about to be answered
            return True
        if self.cycle.response_complete or not self.cycle.scope["state"].get("answers_after_eof", True):
            return False
        self.keeps_alive = self.cycle.keep_alive = False
        return True

    def end_incomplete_body(self):
        if self.cycle.scope["state"].get("is_answering"):
            self.keeps_alive = self.cycle.keep_alive = False
        else:
            self.refuse(refusals.BODY_INCOMPLETE)
            self.transport.close()

    def shutdown(self):
        self.keeps_alive = False
        super().shutdown()

    # --- parts of a request, as the parser finds them

    def on_message_begin(self):
        super().on_message_begin()
        self.is_reading_head, self.head_bytes = True, 0
        self.field_count = 0
        self.start_head()
        if len(self.pipeline) >= PIPELINED_MAX_REQUESTS:
            self.reject(refusals.BAD_REQUEST)

    def on_url(self, url):
        super().on_url(url)
        if len(self.url) > TARGET_MAX_BYTES:
            self.reject(refusals.TARGET_TOO_LONG)

    def on_header(self, name, value):
        if not self.is_reading_head:
            return  # a trailer: nothing of it may pass for a header
        self.field_count += 1
        if self.field_count > HEAD_MAX_FIELDS or len(name) + len(value) > HEADER_MAX_BYTES:
            self.reject(refusals.HEAD_TOO_LARGE)
        super().on_header(name, value)

    def on_headers_complete(self):
        self.check_head()
        if self.parser.should_upgrade() and not self.is_websocket():
            self.plain_head = self.build_plain_head()
            return
        self.is_reading_head, self.head_started_at = False, None
        self.forget_incomplete_head()
        self.body_complete, self.drain_started_at = False, None
        self.scope["state"]["connection"] = self
        super().on_headers_complete()
        # An answer that comes before the whole body must not close the connection while the client still sends.
        self.keeps_alive, self.cycle.keep_alive = self.cycle.keep_alive, True

    def check_head(self):
        version, hosts = self.parser.get_http_version(), 0
        for name, value in self.headers:
            if name == b"host":
                hosts += 1
            elif name == b"transfer-encoding":
                if version != "1.1":
                    self.reject(refusals.BAD_REQUEST)
                if value.strip().lower() != b"chunked":
                    self.reject(refusals.UNKNOWN_CODING)
            elif name == b"expect" and value.strip().lower() != b"100-continue":
                self.reject(refusals.UNKNOWN_EXPECTATION)
        if version not in ("1.0", "1.1") or hosts > 1 or self.parser.get_method() == b"CONNECT":
            self.reject(refusals.BAD_REQUEST)
        if not self.url.startswith(b"/"):  # a whole address, whose path may be missing
            parsed = httptools.parse_url(self.url)
            self.url = (parsed.path or b"/") + (b"?" + parsed.query if parsed.query else b"")

    def is_websocket(self):
        """Whether the request asks for a WebSocket and for nothing else: it has no body."""
        found = dict(self.headers)
        has_body = b"content-length" in found or b"transfer-encoding" in found
        return found.get(b"upgrade", b"").strip().lower() == b"websocket" and not has_body

    def build_plain_head(self):
        """Return the head without its upgrade, which may be ignored (RFC 9110 7.8). With it no body would be read."""
        lines = [self.parser.get_method() + b" " + self.url + b" HTTP/1.1"]
        for name, value in self.headers:
            if name == b"connection":
                words = [word.strip() for word in value.split(b",")]
                value = b", ".join(word for word in words if word.lower() not in (b"upgrade", b"http2-settings"))
            if name != b"upgrade":
                lines.append(name + b": " + value)
        return b"\r\n".join([*lines, b"", b""])

    def on_message_complete(self):
        if self.plain_head is not None:
            return
        self.body_complete = True
        self.drain_started_at = None
        super().on_message_complete()
        if not self.cycle.response_complete:
            self.cycle.keep_alive = self.keeps_alive
        elif not self.keeps_alive:
            self.transport.close()

    def on_response_complete(self):
        is_last = not self.pipeline
        super().on_response_complete()
        if self.transport.is_closing() or not is_last:
            return
        self.last_data_at = self.loop.time()
        if not self.body_complete:
            self.drain_started_at = self.last_data_at
        if self.pending_refusal:
            refusal, self.pending_refusal = self.pending_refusal, None
            self.refuse(refusal)
        elif self.early_data is not None:  # the upgrade was answered as a request: go on with requests
            data, self.early_data = self.early_data, None
            if data:
                self.loop.call_soon(self.data_received, data)

    # --- refusals

    def reject(self, refusal):
        """Stop the parser: whatever called it answers with the refusal."""
        self.refusal = refusal
        raise ValueError(refusal.message)

    def refuse(self, refusal):
        """Answer the request that cannot be read, after those before it, and take no further ones."""
        if self.transport.is_closing():
            return
        if self.pipeline and not self.body_complete:
            self.pipeline.popleft()  # the newest one, which has not been started
            self.body_complete, self.pending_refusal = True, refusal
            return
        if not self.body_complete and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
            if self.cycle.response_started:
                self.transport.abort()
                return
        elif self.cycle is not None and not self.cycle.response_complete:
            self.pending_refusal = refusal
            self.cycle.keep_alive = True
            return
        elif not self.body_complete:  # the request was answered, and only its rest is broken
            self.transport.close()
            return
        self.is_refused, self.drain_started_at = True, self.loop.time()
        self.forget_incomplete_head()
        log.info("request_refused", status=refusal.status, reason=refusal.message, address=(self.client or ("",))[0])
        self.transport.write(refusals.serialize(refusal, refusals.target_path(getattr(self, "url", b""))))
        if self.transport.can_write_eof():
            self.transport.write_eof()

    # --- time

    def expire(self, now):
        """End what has taken too long. Called about every second."""
        if self.has_stalled(now):
            self.transport.abort()
        elif self.transport.is_closing():
            return
        elif self.drain_started_at is not None:
            if now - self.drain_started_at > DRAIN_SECONDS or now - self.last_data_at > BODY_PAUSE_SECONDS:
                self.transport.abort()
        elif self.head_started_at is not None:
            if now - self.head_started_at > self.limits.head_seconds:
                self.end_late_head()
        elif not self.body_complete:
            if now - self.last_data_at > BODY_PAUSE_SECONDS and not self.flow.read_paused:
                self.refuse(refusals.TIMED_OUT)
        elif self.is_idle() and now - self.last_data_at > KEEP_ALIVE_SECONDS:
            self.transport.close()

    def end_late_head(self):
        self.head_started_at = None
        if self.is_reading_head:
            self.refuse(refusals.TIMED_OUT)
        else:
            self.transport.close()

    def has_stalled(self, now):
        unsent = self.transport.get_write_buffer_size()
        if not unsent or unsent != self.unsent_bytes:
            self.unsent_bytes, self.stalled_since = unsent, now
        return now - self.stalled_since > WRITE_STALL_SECONDS

    # --- giving the socket away

    def fileno(self):
        """Return the client's socket. Raise BlockingIOError when bytes of it are already, or still, in this process."""
        if self.early_data or self.transport.get_write_buffer_size():
            raise BlockingIOError("The client sent data before the connection was upgraded.")
        return self.transport.get_extra_info("socket").fileno()

    def release(self):
        """Forget the socket, which another process has now. Nothing is sent: closing it here ends nothing."""
        self.is_handed_over = True


async def expire_connections(connections):
    """End, about every second, what has taken too long."""
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(1)
        now = loop.time()
        for connection in tuple(connections):
            connection.expire(now)


def protocol_factory(limits):
    """Return what uvicorn takes for the class of its connections."""
    return functools.partial(ConnectionProtocol, limits=limits)
