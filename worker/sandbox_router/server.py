"""The clients of the router: reads the head of a request, finds its sandbox, and carries the exchange."""

import asyncio
import contextlib
import hmac
import socket
from http import HTTPStatus

import h11
import structlog
from sqlalchemy.exc import SQLAlchemyError

from panel.services.microvms.read import Route
from worker.nodes.base import NodeError, NotOnNode, Refused
from worker.sandbox_guest.mux_stream import MuxStream
from worker.sandbox_router.channels import UNAVAILABLE_ERRORS, ChannelPool
from worker.sandbox_router.destinations import (
    DAEMON_PORT,
    Destination,
    ensure_no_control_route,
    find_destination,
    get_header,
)
from worker.sandbox_router.errors import (
    CORS_HEADERS,
    RequestRefused,
    build_connector_unknown,
    build_not_found,
    build_unreachable,
)
from worker.sandbox_router.exchange import IDLE_SECONDS, Exchange, GuestFailed
from worker.sandbox_router.heads import MAX_HEAD_BYTES, ensure_request_can_pass
from worker.sandbox_router.routes import RouteTable

log = structlog.get_logger()

HEAD_SECONDS = 10.0
HEAD_READ_BYTES = 8 * 1024
MAX_CLIENTS = 5000
LINGER_SECONDS = 2.0
"""Seconds in which a client may read the answer and end the connection. Closing at once could lose the answer."""

MAX_LINGER_BYTES = 1024 * 1024
KEEPALIVE_IDLE_SECONDS = 60
"""Seconds without a byte after which the kernel asks whether the client's machine is still there."""

OPEN_ATTEMPTS = 2
"""The first may meet a channel that ended with a pause."""


class Router:
    def __init__(
        self,
        routes: RouteTable,
        channels: ChannelPool,
        sandbox_domain: str = "",
        head_seconds: float = HEAD_SECONDS,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        self.routes, self.channels, self.sandbox_domain = routes, channels, sandbox_domain
        self.head_seconds, self.idle_seconds = head_seconds, idle_seconds
        self.clients: set[asyncio.Task] = set()

    async def serve_client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection, which carries one request."""
        task = asyncio.current_task()
        assert task is not None
        self.clients.add(task)
        try:
            enable_keepalive(writer)
            await self.serve_request(reader, writer)
        except (OSError, TimeoutError):
            pass  # the client is gone, or has been silent for too long
        except asyncio.CancelledError:  # the process stops; this task ends here anyway
            writer.transport.abort()
        except Exception:
            log.exception("sandbox_request_failed")
        finally:
            self.clients.discard(task)
            await close_connection(writer)

    async def serve_request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD_BYTES)
        request = destination = None
        try:
            if len(self.clients) > MAX_CLIENTS:
                raise RequestRefused(503, "Too many requests are open")
            request = await self.read_head(client, reader)
            if request is None:
                return
            ensure_request_can_pass(request)
            destination = find_destination(request, self.sandbox_domain)
            if destination is None:
                send_own_answer(client, request, writer)
            else:
                if isinstance(destination, str):
                    destination = await self.find_connector(destination)
                ensure_no_control_route(request, destination)
                await self.forward_request(client, request, destination, reader, writer)
        except RequestRefused as refusal:
            is_connector = isinstance(destination, Destination) and destination.is_connector
            send_refusal(client, request, writer, refusal.build_public_refusal() if is_connector else refusal)
        await linger(reader, writer)

    async def find_connector(self, label: str) -> Destination:
        """Return where the connector leads. Raises `RequestRefused`."""
        try:
            row = await self.routes.find_connector_port(label)
        except SQLAlchemyError as error:
            log.warning("sandbox_lookup_failed", error=str(error))
            raise RequestRefused(503, "The panel cannot look the address up") from error
        if row is None:
            raise build_connector_unknown()
        return Destination(*row, is_connector=True)

    async def read_head(self, client: h11.Connection, reader: asyncio.StreamReader) -> h11.Request | None:
        """Return the head of the request, or None when nothing was sent. Raises `RequestRefused`."""
        has_received = False
        try:
            async with asyncio.timeout(self.head_seconds):
                while (event := client.next_event()) is h11.NEED_DATA:
                    data = await reader.read(HEAD_READ_BYTES)
                    has_received = has_received or bool(data)
                    client.receive_data(data)
        except TimeoutError:
            if not has_received:
                return None
            raise RequestRefused(408, "The head of the request took too long") from None
        except h11.RemoteProtocolError as error:
            if not has_received:
                return None
            raise RequestRefused(error.error_status_hint, "The head of the request is not valid") from error
        return event if isinstance(event, h11.Request) else None

    async def forward_request(
        self,
        client: h11.Connection,
        request: h11.Request,
        destination: Destination,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        async with contextlib.AsyncExitStack() as stack:
            token = get_header(request, b"x-access-token") if destination.port == DAEMON_PORT else None
            stream = await self.open_stream(stack, destination, token)
            exchange = Exchange(client, reader, writer, stream, self.idle_seconds)
            try:
                await exchange.run(request)
            except (GuestFailed, OSError, TimeoutError) as error:
                if exchange.has_answered or reader.at_eof():
                    raise ConnectionError(str(error)) from error
                self.routes.forget_route(destination.sandbox_id)
                if await self.routes.find_running(destination.sandbox_id) is None:
                    raise build_not_found(destination.sandbox_id) from error
                raise build_unreachable(destination.sandbox_id) from error

    async def open_stream(
        self, stack: contextlib.AsyncExitStack, destination: Destination, token: str | None
    ) -> MuxStream:
        """Return a stream to the destination. Raises `RequestRefused`."""
        sandbox_id = destination.sandbox_id
        for _attempt in range(OPEN_ATTEMPTS):
            try:
                route = await self.routes.find_running(sandbox_id)
            except SQLAlchemyError as error:
                log.warning("sandbox_lookup_failed", error=str(error))
                raise RequestRefused(503, "The panel cannot look the sandbox up", sandboxId=sandbox_id) from error
            if route is None:
                raise build_not_found(sandbox_id)
            try:
                has_token = is_token_of(token, route)
                opening = self.channels.open_stream(route, destination.port, has_token=has_token)
                return await stack.enter_async_context(opening)
            except (*UNAVAILABLE_ERRORS, NodeError) as error:
                last_error: Exception = error
                self.routes.forget_route(sandbox_id)
        if isinstance(last_error, Refused | NotOnNode):  # the machine is off, and its row follows
            raise build_not_found(sandbox_id) from last_error
        raise build_unreachable(sandbox_id) from last_error


def is_token_of(token: str | None, route: Route) -> bool:
    return token is not None and hmac.compare_digest(token.encode(), route.access_token.encode())


def enable_keepalive(writer: asyncio.StreamWriter) -> None:
    sock = writer.get_extra_info("socket")
    if sock.family in (socket.AF_INET, socket.AF_INET6):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_IDLE_SECONDS)


def send_own_answer(client: h11.Connection, request: h11.Request, writer: asyncio.StreamWriter) -> None:
    """Answer a request without a sandbox: the health check, or what a browser asks before its first request."""
    headers = dict(request.headers)
    if request.method == b"GET" and request.target == b"/healthz":
        send_answer(client, writer, 204)
    elif request.method == b"OPTIONS" and b"access-control-request-method" in headers:
        allowed = headers.get(b"access-control-request-headers", b"*").decode("latin-1")
        methods = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"
        preflight = [("Access-Control-Allow-Methods", methods), ("Access-Control-Allow-Headers", allowed)]
        send_answer(client, writer, 204, headers=[*CORS_HEADERS, *preflight, ("Access-Control-Max-Age", "7200")])
    else:
        raise RequestRefused(400, "The request names no sandbox")


def send_refusal(
    client: h11.Connection, request: h11.Request | None, writer: asyncio.StreamWriter, refusal: RequestRefused
) -> None:
    is_page = request is not None and accepts_html(request)
    body = refusal.build_page() if is_page else refusal.build_body()
    content_type = "text/html; charset=utf-8" if is_page else "application/json"
    headers = [*CORS_HEADERS, ("Content-Type", content_type), ("Content-Length", str(len(body)))]
    headers += [("Cache-Control", "no-store"), ("Vary", "Accept")]
    is_head = request is not None and request.method == b"HEAD"
    send_answer(client, writer, refusal.status, b"" if is_head else body, headers)


def accepts_html(request: h11.Request) -> bool:
    """Return whether a person is likely to read the answer: SDKs and programs do not name HTML."""
    return any(name == b"accept" and b"text/html" in value.lower() for name, value in request.headers)


def send_answer(
    client: h11.Connection,
    writer: asyncio.StreamWriter,
    status: int,
    body: bytes = b"",
    headers: list[tuple[str, str]] | None = None,
) -> None:
    response = h11.Response(
        status_code=status, headers=[*(headers or ()), ("Connection", "close")], reason=HTTPStatus(status).phrase
    )
    writer.write(client.send(response) or b"")
    if body:
        writer.write(client.send(h11.Data(data=body)) or b"")
    writer.write(client.send(h11.EndOfMessage()) or b"")


async def linger(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Let the client read the answer and end the connection, for a short time."""
    if writer.can_write_eof() and not writer.is_closing():
        writer.write_eof()
    size = 0
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LINGER_SECONDS):
            while size < MAX_LINGER_BYTES and (data := await reader.read(HEAD_READ_BYTES)):
                size += len(data)


async def close_connection(writer: asyncio.StreamWriter) -> None:
    """Send what is left, for a short time, and close."""
    writer.close()
    try:
        async with asyncio.timeout(LINGER_SECONDS):
            await writer.wait_closed()
    except (OSError, TimeoutError):
        writer.transport.abort()
