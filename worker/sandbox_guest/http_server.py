"""The HTTP/1.1 server: connections, limits and time-outs."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

from .errors import HttpError, RpcError
from .http_messages import Request, Response
from .http_stream import Reader, StreamConnection, Writer
from .mux_stream import MuxStream

MAX_HEAD_BYTES = 64 * 1024
MAX_CONNECTIONS = 1000
HEAD_TIMEOUT_SECONDS = 10.0
IDLE_TIMEOUT_SECONDS = 640.0
"""How long a connection stays open between requests. Clients keep theirs for 90 seconds, so they close first."""
DISCARD_BYTES = 4 * 1024 * 1024
"""How much of an unread body is read so that the connection can be used again."""
LINGER_SECONDS = 5.0
"""How long the rest of a request is read before the connection closes, so that the client receives the answer."""

log = logging.getLogger(__name__)

Handler = Callable[[Request, Response, asyncio.Event], Awaitable[None]]
"""A function that answers a request. The event is set when the client has disconnected."""


class ConnectionProtocol(asyncio.StreamReaderProtocol):
    """A connection that notices at once when its client disconnects, also while nothing is read or written."""

    def __init__(self, server: "HttpServer"):
        reader = asyncio.StreamReader(limit=MAX_HEAD_BYTES)
        self.disconnected = asyncio.Event()
        super().__init__(reader, lambda reader, writer: server.accept(reader, writer, self.disconnected))

    def eof_received(self) -> bool | None:
        self.disconnected.set()
        return super().eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self.disconnected.set()
        super().connection_lost(exc)


class HttpServer:
    """Accepts connections and passes their requests to one handler."""

    def __init__(self, handler: Handler, maximum: int = MAX_CONNECTIONS, head_timeout: float = HEAD_TIMEOUT_SECONDS):
        self.handler = handler
        self.maximum = maximum
        self.head_timeout = head_timeout
        self.connections: set[asyncio.Task[None]] = set()

    async def start(self, address: str, port: int) -> asyncio.Server:
        """Listen and return the server."""
        loop = asyncio.get_running_loop()
        return await loop.create_server(lambda: ConnectionProtocol(self), address, port, backlog=256)

    async def serve_stream(self, stream: MuxStream) -> None:
        """Serve a stream of the channel as a connection, until both ends have ended it. Raises OSError."""
        stream.mux.confirm_stream(stream)
        connection = StreamConnection(stream)
        self.accept(connection, connection, stream.input_ended)
        await connection.wait_closed()

    def accept(self, reader: Reader, writer: Writer, disconnected: asyncio.Event) -> None:
        """Serve a connection in a task of its own.

        asyncio could start the task itself, but Python 3.11 logs an error then for every task that is cancelled.
        """
        serve = self.serve_connection if len(self.connections) < self.maximum else self.refuse_connection
        task = asyncio.get_running_loop().create_task(serve(reader, writer, disconnected))
        self.connections.add(task)
        task.add_done_callback(self.connections.discard)

    async def serve_connection(self, reader: Reader, writer: Writer, disconnected: asyncio.Event) -> None:
        """Answer the requests of a connection until it closes."""
        try:
            timeout = self.head_timeout
            while await self.serve_request(reader, writer, disconnected, timeout):
                timeout = IDLE_TIMEOUT_SECONDS
            await self.linger(reader, writer)
        except (OSError, EOFError):
            pass  # the client has gone
        except Exception:
            log.exception("unexpected error")
        finally:
            writer.close()

    async def refuse_connection(self, _reader: Reader, writer: Writer, _disconnected: asyncio.Event) -> None:
        with contextlib.suppress(OSError):
            await Response(writer, None).send_error(503, "too many connections")
        writer.close()

    async def serve_request(
        self, reader: Reader, writer: Writer, disconnected: asyncio.Event, idle_timeout: float
    ) -> bool:
        """Answer one request. Return whether the connection can be used for another one."""
        request: Request | None = None
        try:
            head = await self.read_head(reader, idle_timeout)
            if head is None:
                return False
            request = Request(head, reader, writer)
        except HttpError as error:
            await Response(writer, None).send_error(error.status, error.message)
            return False
        response = Response(writer, request)
        try:
            await self.handler(request, response, disconnected)
        except (HttpError, RpcError) as error:
            if response.is_started:
                return False
            await response.send_error(error.status, error.message, getattr(error, "headers", None))
        except (ConnectionError, EOFError):
            return False
        except Exception:
            log.exception("unexpected error")
            if response.is_started:
                return False
            await response.send_error(500, "internal error")
        if not response.is_finished or not response.keeps_connection:
            return False
        return request.body.is_complete or await self.discard_body(request)

    async def read_head(self, reader: Reader, idle_timeout: float) -> bytes | None:
        """Return the head of the next request, or None when the client sends no more."""
        try:
            async with asyncio.timeout(idle_timeout):
                first_byte = await reader.read(1)
        except TimeoutError:
            return None
        if not first_byte:
            return None
        try:
            async with asyncio.timeout(self.head_timeout):
                head = first_byte + await reader.readuntil(b"\r\n\r\n")
        except TimeoutError as error:
            raise HttpError(408, "the head of the request was not received in time") from error
        except asyncio.LimitOverrunError as error:
            raise HttpError(431, f"the head of the request is larger than {MAX_HEAD_BYTES} bytes") from error
        return head.lstrip(b"\r\n")

    async def discard_body(self, request: Request) -> bool:
        try:
            async with asyncio.timeout(LINGER_SECONDS):
                return await request.body.discard(DISCARD_BYTES)
        except (TimeoutError, HttpError):
            return False

    async def linger(self, reader: Reader, writer: Writer) -> None:
        """Close for writing and read what the client still sends.

        Closing with unread data would reset the connection, and the client might lose the answer.
        """
        if writer.is_closing() or reader.at_eof():
            return
        await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LINGER_SECONDS):
                while await reader.read(MAX_HEAD_BYTES):
                    pass
