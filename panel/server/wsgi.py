"""Flask behind the event loop: a request uses a thread only after its body has arrived and while Flask works on it."""

import asyncio
import contextvars
import io
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import unquote_to_bytes

import structlog

from panel.server import refusals

log = structlog.get_logger()

BODY_MEMORY_BYTES = 256 * 1024
"""A body up to this size stays in memory; a larger one goes to a temporary file."""

RESPONSE_CHUNK_BYTES = 256 * 1024
BODILESS_STATUSES = (204, 304)
HEADER_VARIABLES = {b"content-type": "CONTENT_TYPE", b"content-length": "CONTENT_LENGTH"}
UNSAFE_HEADERS = (b"proxy", b"transfer-encoding")
"""`Proxy` would become HTTP_PROXY, which programs read as a setting. Transfer-Encoding no longer applies, because the
body was decoded."""


class ClientGone(Exception):
    """The client left before its request was complete."""


class ThreadedWsgi:
    """A WSGI application as an ASGI one. The event loop reads bodies and sends answers, so slow clients use no
    thread."""

    def __init__(self, application, threads, body_max_bytes):
        self.application, self.body_max_bytes = application, body_max_bytes
        self.pool = ThreadPoolExecutor(threads, "request")

    async def __call__(self, scope, receive, send):
        with tempfile.SpooledTemporaryFile(BODY_MEMORY_BYTES) as body:
            try:
                length = await read_body(scope["headers"], receive, body, self.body_max_bytes)
            except ClientGone:
                return
            scope["state"]["is_answering"] = True
            await self.answer(scope, WsgiCall(self.application, build_environ(scope, body, length)), receive, send)

    async def answer(self, scope, call, receive, send):
        loop, context = asyncio.get_running_loop(), contextvars.copy_context()
        connection = scope["state"]["connection"]

        def run(work, *args):
            return loop.run_in_executor(self.pool, context.run, work, *args)

        try:
            chunk, has_more = await run(call.begin, scope["http_version"] == "1.0")
            if connection.is_handed_over:
                connection.transport.abort()
                while (await receive())["type"] != "http.disconnect":
                    pass  # the empty body; uvicorn reports an application that returns before the connection is closed
                return
            await send(call.start_message(None if has_more else len(chunk)))
            while has_more and not connection.transport.is_closing():
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
                chunk, has_more = await run(call.pull)
            await send({"type": "http.response.body", "body": chunk if call.has_body else b"", "more_body": False})
        except Exception:
            log.exception("request_crashed")
            if call.is_started:
                connection.transport.abort()
            else:
                await send_refusal(send, refusals.CRASH_REFUSAL, scope["path"])
        finally:
            if call.response is not None:
                await run(call.close)


async def read_body(headers, receive, body, maximum):
    """Write the body to the file `body` and return its length, or None when there is none. Reading stops when it is
    larger than `maximum`: the application refuses it by its length, and the connection drops the rest."""
    declared = next((int(value) for name, value in headers if name == b"content-length"), None)
    if declared is None and not any(name == b"transfer-encoding" for name, _ in headers):
        return None
    if declared is not None and (declared > maximum or not declared):
        return declared
    length, has_more = 0, True
    while has_more and length <= maximum:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        length, has_more = length + len(message["body"]), message["more_body"]
        body.write(message["body"])
    body.seek(0)
    return length


def build_environ(scope, body, length):
    """Return the WSGI environment (PEP 3333) of a request."""
    client, server = scope["client"] or ("", 0), scope["server"] or ("localhost", None)
    query = scope["query_string"].decode("latin-1")
    target = scope["raw_path"].decode("latin-1")
    environ = {
        "REQUEST_METHOD": scope["method"],
        "SCRIPT_NAME": "",
        "PATH_INFO": unquote_to_bytes(scope["raw_path"]).decode("latin-1"),
        "QUERY_STRING": query,
        "REQUEST_URI": f"{target}?{query}" if query else target,
        "SERVER_NAME": server[0],
        "SERVER_PORT": str(server[1] or 80),
        "SERVER_PROTOCOL": f"HTTP/{scope['http_version']}",
        "REMOTE_ADDR": client[0],
        "REMOTE_PORT": str(client[1]),
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "wsgi.input": body if length else io.BytesIO(),
        "wsgi.input_terminated": True,
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
        "panel.connection": scope["state"]["connection"],
    }
    for name, value in scope["headers"]:
        if b"_" in name or name in UNSAFE_HEADERS:
            continue  # `X_Y` and `X-Y` would be one variable
        variable = HEADER_VARIABLES.get(name) or "HTTP_" + name.decode("latin-1").upper().replace("-", "_")
        text = value.decode("latin-1")
        if variable in environ:
            text = environ[variable] + ("; " if name == b"cookie" else ",") + text
        environ[variable] = text
    if length is not None:
        environ["CONTENT_LENGTH"] = str(length)
    return environ


class WsgiCall:
    """One call of the application. Everything but `start_message` runs on a thread."""

    def __init__(self, application, environ):
        self.application, self.environ = application, environ
        self.response = self.chunks = None
        self.status, self.headers, self.written = 500, [], []
        self.is_started = False

    def start_response(self, status, headers, exc_info=None):
        if exc_info and self.is_started:
            raise exc_info[1].with_traceback(exc_info[2])
        self.status, self.headers = int(status[:3]), headers
        return self.written.append

    def begin(self, is_buffered):
        """Call the application. Return the first bytes of the answer (all when `is_buffered`) and if more follow."""
        self.response = self.application(self.environ, self.start_response)
        self.chunks = iter(self.response)
        parts = [] if not is_buffered else list(self.chunks)
        chunk, has_more = self.pull()
        return b"".join([*self.written, *parts, chunk]), has_more

    def pull(self):
        """Return the next bytes of the answer and whether more follow. Answers without a length are not buffered.

        After the last bytes the response is closed on the same thread, because another switch to a thread costs as much
        as a small answer.
        """
        parts, size = [], 0
        minimum = RESPONSE_CHUNK_BYTES if self.has_length else 1
        for part in self.chunks:
            parts.append(part)
            size += len(part)
            if size >= minimum:
                return b"".join(parts), True
        self.close()
        return b"".join(parts), False

    def close(self):
        response, self.response = self.response, None
        if hasattr(response, "close"):
            response.close()

    @property
    def has_length(self):
        return any(name.lower() == "content-length" for name, _ in self.headers)

    @property
    def has_body(self):
        return self.status not in BODILESS_STATUSES

    def start_message(self, length):
        """Return the ASGI message that starts the answer. `length` is the length of its body, or None if unknown."""
        self.is_started = True
        headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in self.headers]
        if not self.has_body:
            headers = [(name, value) for name, value in headers if name != b"content-length"]
        elif length is not None and not self.has_length:
            headers.append((b"content-length", b"%d" % length))
        return {"type": "http.response.start", "status": self.status, "headers": headers}


async def send_refusal(send, refusal, path):
    headers, body = refusals.build_content(refusal, path)
    pairs = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": refusal.status, "headers": pairs})
    await send({"type": "http.response.body", "body": body, "more_body": False})
