"""The routes of the daemon: who may call them and which function answers."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from .authorization import ensure_token, ensure_token_or_signature
from .calls import Call
from .connect_protocol import (
    STREAM_TYPE,
    UNARY_TYPE,
    Message,
    MessageStream,
    ensure_content_type,
    get_timeout_seconds,
    parse_message,
    read_single_message,
    run_until_disconnected,
)
from .errors import HttpError, RpcError
from .files import download, upload
from .filesystem_service import FilesystemService
from .http_messages import Request, Response
from .identity import Identity, IdentityFile
from .log_entries import WARN, LogClient
from .metrics import Metrics
from .preflight import send_preflight
from .process_service import ProcessService
from .process_table import ProcessTable
from .watchers import WatcherTable

LOGGED_REFUSALS_PER_MINUTE = 10
UNAUTHORIZED = 401
UnaryMethod = Callable[[Call], Awaitable[Message]]
StreamMethod = Callable[[Call, MessageStream], Coroutine[Any, Any, None]]


class Application:
    """Answers the requests of clients."""

    def __init__(self, identity_file: IdentityFile, log: LogClient):
        self.identity_file, self.log = identity_file, log
        self.refusal_minute = self.refusal_count = 0
        self.metrics = Metrics()
        self.processes = ProcessTable(log)
        processes = ProcessService(self.processes)
        files = FilesystemService(WatcherTable())
        self.unary_methods: dict[str, UnaryMethod] = {
            "/process.Process/List": processes.list_processes,
            "/process.Process/Update": processes.update,
            "/process.Process/SendInput": processes.send_input,
            "/process.Process/SendSignal": processes.send_signal,
            "/process.Process/CloseStdin": processes.close_stdin,
            "/filesystem.Filesystem/Stat": files.stat,
            "/filesystem.Filesystem/ListDir": files.list_dir,
            "/filesystem.Filesystem/MakeDir": files.make_dir,
            "/filesystem.Filesystem/Move": files.move,
            "/filesystem.Filesystem/Remove": files.remove,
            "/filesystem.Filesystem/CreateWatcher": files.create_watcher,
            "/filesystem.Filesystem/GetWatcherEvents": files.get_watcher_events,
            "/filesystem.Filesystem/RemoveWatcher": files.remove_watcher,
        }
        self.server_streams: dict[str, StreamMethod] = {
            "/process.Process/Start": processes.start,
            "/process.Process/Connect": processes.connect,
            "/filesystem.Filesystem/WatchDir": files.watch_dir,
        }
        self.client_streams: dict[str, StreamMethod] = {"/process.Process/StreamInput": processes.stream_input}
        self.methods_by_path = {"/health": ("GET",), "/metrics": ("GET",), "/envs": ("GET",), "/files": ("GET", "POST")}
        for path in (*self.unary_methods, *self.server_streams, *self.client_streams):
            self.methods_by_path[path] = ("POST",)

    async def handle(self, request: Request, response: Response, disconnected: asyncio.Event) -> None:
        """Answer one request."""
        try:
            await self.answer(request, response, disconnected)
        except HttpError as error:
            if error.status == UNAUTHORIZED:
                self.log_refusal(request, error)
            raise

    def log_refusal(self, request: Request, error: HttpError) -> None:
        """Log that a request was refused, a few times a minute. Its query may contain a signature and is left out."""
        minute = int(time.monotonic() / 60)
        if minute != self.refusal_minute:
            self.refusal_minute, self.refusal_count = minute, 0
        self.refusal_count += 1
        if self.refusal_count <= LOGGED_REFUSALS_PER_MINUTE:
            facts = {"method": request.method, "path": request.path, "reason": error.message}
            self.log.log(WARN, "request", "Request refused", **facts)

    async def answer(self, request: Request, response: Response, disconnected: asyncio.Event) -> None:
        if request.method == "OPTIONS":
            await send_preflight(request, response, "GET, POST, OPTIONS")
            return
        if request.path == "/health" and request.method == "GET":
            await response.send(204, b"", {"Cache-Control": "no-store"})
            return
        identity = self.identity_file.find()
        if identity is None:
            raise HttpError(503, "the sandbox has no identity yet")
        methods = self.methods_by_path.get(request.path)
        if request.path == "/files" and methods and request.method in methods:
            ensure_token_or_signature(request, identity)
        else:
            ensure_token(request, identity)
        if methods is None:
            raise HttpError(404, f"path '{request.path}' does not exist")
        if request.method not in methods:
            raise HttpError(405, f"method {request.method} is not allowed", {"Allow": ", ".join(methods)})
        if request.path == "/metrics":
            await response.send_json(200, await self.metrics.measure(), {"Cache-Control": "no-store"})
        elif request.path == "/envs":
            await response.send_json(200, identity.env, {"Cache-Control": "no-store"})
        elif request.path == "/files":
            await (download if request.method == "GET" else upload)(request, response, identity)
        elif request.path in self.unary_methods:
            await answer_unary(self.unary_methods[request.path], request, response, identity)
        else:
            await self.answer_stream(request, response, identity, disconnected)

    async def answer_stream(
        self, request: Request, response: Response, identity: Identity, disconnected: asyncio.Event
    ) -> None:
        """Execute a call of a stream. Its errors are in the end of the stream, with status 200."""
        ensure_content_type(request, STREAM_TYPE)
        stream = MessageStream(request, response)
        try:
            if request.path in self.client_streams:
                await self.client_streams[request.path](Call(request, identity, {}), stream)
            else:
                call = Call(request, identity, await read_single_message(request.body))
                await run_until_disconnected(self.server_streams[request.path](call, stream), disconnected)
        except RpcError as error:
            await stream.end(error)
        except HttpError as error:
            if response.is_started:
                raise
            await stream.end(RpcError("invalid_argument", error.message))
        else:
            if not response.is_finished:
                await stream.end()


async def answer_unary(method: UnaryMethod, request: Request, response: Response, identity: Identity) -> None:
    """Execute a call with one message and one answer."""
    ensure_content_type(request, UNARY_TYPE)
    try:
        async with asyncio.timeout(get_timeout_seconds(request)) as limit:
            message = await method(Call(request, identity, parse_message(await request.body.read_all())))
        status = 200
    except RpcError as error:
        status, message = error.status, {"code": error.code, "message": error.message}
    except TimeoutError:
        if not limit.expired():
            raise
        status, message = 504, {"code": "deadline_exceeded", "message": "the time limit of the call is over"}
    await response.send_json(status, message)
