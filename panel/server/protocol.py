"""One client's connection: uvicorn's HTTP protocol with deadlines, limits and error answers of our own.

Uvicorn reads and writes the messages; llhttp (in httptools) refuses ambiguous requests. This class adds what neither
does: a deadline for the whole head, a limit for pauses, limits for the size of a head, a cap per address, refusals in
the dialect of the path, answers to clients that half-close, and upgrades whose socket is passed to another process.
"""

import functools
import re

import httptools
import structlog
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from panel.server import refusals
from panel.server.connection_limits import (
    EARLY_MAX_BYTES,
    HEAD_MAX_BYTES,
    HEAD_MAX_FIELDS,
    HEADER_MAX_BYTES,
    LAST_REQUEST_SECONDS,
    PIPELINED_MAX_REQUESTS,
    TARGET_MAX_BYTES,
    ConnectionLimits,
)

log = structlog.get_logger()

HOST_PATTERN = re.compile(rb"([\w.~%-]+|\[[0-9A-Fa-f:.]+\])(:\d*)?")
"""A host name or an address, and a port (RFC 9110 7.2). Sub-delimiters are left out, because host names have none."""

REQUEST_LINE = re.compile(rb"[\w!#$%&'*+.^`|~-]+ (\S+) HTTP/1\.[01]\r\n")


class ConnectionProtocol(HttpToolsProtocol):
    def __init__(self, *args, limits: ConnectionLimits, **options):
        super().__init__(*args, **options)
        self.limits = limits
        self.head_started_at = self.drain_started_at = None
        self.head_bytes = 0
        self.is_reading_head = self.is_counted = self.is_refused = self.is_handed_over = False
        self.body_complete = True
        self.keeps_alive = True
        self.is_stopping = False
        """Whether the process stops: the next answer is the last one of this connection."""
        self.refusal = self.pending_refusal = None
        self.early_data = None
        """Bytes received after a WebSocket request; None while there is no such request."""
        self.plain_head = None
        """The head, without the upgrade, of a request that asks for an unsupported one. It is parsed again."""
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
        """Return whether no request has begun or waits for its answer."""
        return self.body_complete and (self.cycle is None or self.cycle.response_complete)

    def count_incomplete_head(self):
        """Count this connection for its address, and close it when the address has too many."""
        has_cap = self.limits.incomplete_heads_per_address and self.client
        if has_cap and not self.is_counted and not self.limits.is_exempt(self.client[0]):
            self.is_counted = True
            if not self.limits.count_head(self.client[0]):
                self.transport.abort()

    def forget_incomplete_head(self):
        if self.is_counted:
            self.is_counted = False
            self.limits.forget_head(self.client[0])

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
        except httptools.HttpParserInvalidMethodError:
            self.refuse_method(data)
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
        """Return whether the connection stays open for answers. The client sends nothing more, but may still read."""
        if self.is_refused or self.cycle is None or (self.is_reading_head and self.cycle.response_complete):
            return False
        if not self.body_complete and not self.cycle.response_complete:
            self.loop.call_soon(self.end_incomplete_body)  # Flask may be about to answer
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
        """Close the connection after its open requests. The first request of a new client may be on its way."""
        self.is_stopping, self.keeps_alive = True, False
        if self.cycle is None or self.is_reading_head:
            self.loop.call_later(LAST_REQUEST_SECONDS, self.close_if_idle)
        else:
            super().shutdown()

    def close_if_idle(self):
        if self.is_idle() and not self.is_refused:
            self.transport.close()

    # --- callbacks of the parser

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
            return  # a trailer, which must not count as a header
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
        # An answer before the end of the body must not close the connection while the client is still sending.
        self.keeps_alive, self.cycle.keep_alive = self.cycle.keep_alive and not self.is_stopping, True

    def check_head(self):
        version, hosts = self.parser.get_http_version(), []
        for name, value in self.headers:
            if name == b"host":
                hosts.append(value)
            elif name == b"transfer-encoding":
                if version != "1.1":
                    self.reject(refusals.BAD_REQUEST)
                if value.strip().lower() != b"chunked":
                    self.reject(refusals.UNKNOWN_CODING)
            elif name == b"expect" and value.strip().lower() != b"100-continue":
                self.reject(refusals.UNKNOWN_EXPECTATION)
        if version not in ("1.0", "1.1") or self.parser.get_method() == b"CONNECT":
            self.reject(refusals.BAD_REQUEST)
        if len(hosts) > 1 or (version == "1.1" and not hosts) or not all(map(HOST_PATTERN.fullmatch, hosts)):
            self.reject(refusals.BAD_HOST)
        if not self.url.startswith(b"/"):  # absolute form, whose path may be empty
            parsed = httptools.parse_url(self.url)
            self.url = (parsed.path or b"/") + (b"?" + parsed.query if parsed.query else b"")

    def is_websocket(self):
        """Return whether the request asks for a WebSocket and has no body."""
        headers = dict(self.headers)
        has_body = b"content-length" in headers or b"transfer-encoding" in headers
        return headers.get(b"upgrade", b"").strip().lower() == b"websocket" and not has_body

    def build_plain_head(self):
        """Return the head without its upgrade, which may be ignored (RFC 9110 7.8). With the upgrade, the parser would
        read no body."""
        lines = [self.parser.get_method() + b" " + self.url + b" HTTP/1.1"]
        for name, value in self.headers:
            if name == b"connection":
                tokens = [token.strip() for token in value.split(b",")]
                value = b", ".join(token for token in tokens if token.lower() not in (b"upgrade", b"http2-settings"))
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
        elif self.early_data is not None:  # the upgrade was refused: go on with requests
            data, self.early_data = self.early_data, None
            if data:
                self.loop.call_soon(self.data_received, data)

    # --- refusals

    def reject(self, refusal):
        """Stop the parser by an exception; `data_received` then answers with the refusal."""
        self.refusal = refusal
        raise ValueError(refusal.message)

    def refuse_method(self, data):
        """Refuse a method that the parser does not know. The path, which selects the dialect, is read from the data,
        unless another request is still open."""
        line = REQUEST_LINE.match(data) if self.is_idle() else None
        if line:
            self.url = line[1]
        self.refuse(refusals.UNKNOWN_METHOD if line else refusals.BAD_REQUEST)

    def refuse(self, refusal):
        """Answer an invalid request, after those before it, and read no further ones."""
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
        elif not self.body_complete:  # already answered; only the rest of its body is invalid
            self.transport.close()
            return
        self.is_refused, self.drain_started_at = True, self.loop.time()
        self.forget_incomplete_head()
        log.debug("request_refused", status=refusal.status, reason=refusal.message, address=(self.client or ("",))[0])
        self.transport.write(refusals.serialize(refusal, refusals.parse_target_path(getattr(self, "url", b""))))
        if self.transport.can_write_eof():
            self.transport.write_eof()

    # --- passing the socket to another process

    def fileno(self):
        """Return the client's socket. Raise BlockingIOError unless exactly one request was received: a WebSocket
        request, or another one, after which the client waits for its answer."""
        is_alone = self.early_data == b"" or (self.early_data is None and self.body_complete and not self.pipeline)
        if not is_alone or self.is_reading_head or self.transport.get_write_buffer_size():
            raise BlockingIOError("The client sent data before the connection was upgraded.")
        return self.transport.get_extra_info("socket").fileno()

    def release(self):
        """Note that another process has the socket now. Closing it here does not close the connection."""
        self.is_handed_over = True


def build_protocol_factory(limits):
    """Return a factory of connections for uvicorn's `http` setting."""
    return functools.partial(ConnectionProtocol, limits=limits)
