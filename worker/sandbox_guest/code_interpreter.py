"""The code interpreter: executes Python code for E2B's code interpreter SDK, on a port of its own."""

import asyncio
import contextlib
import hashlib
import hmac
import json
from typing import Any

from .authorization import ensure_token, has_valid_token
from .code_contexts import ContextTable
from .connect_protocol import MAX_JSON_BYTES
from .errors import HttpError
from .http_messages import Request, Response
from .identity import Identity, IdentityFile
from .preflight import send_preflight

LANGUAGES = (None, "", "python", "python3")


class CodeInterpreter:
    """Answers the requests of the SDK."""

    def __init__(self, identity_file: IdentityFile):
        self.identity_file = identity_file
        self.contexts = ContextTable()

    async def handle(self, request: Request, response: Response, disconnected: asyncio.Event) -> None:
        """Answer one request."""
        path, method = request.path.strip("/").split("/"), request.method
        if method == "OPTIONS":
            return await send_preflight(request, response, "GET, POST, DELETE, OPTIONS")
        if (method, path) == ("GET", ["health"]):
            return await response.send(204, b"", {"Cache-Control": "no-store"})
        identity = self.identity_file.find()
        if identity is None:
            raise HttpError(503, "the sandbox has no identity yet")
        if (method, path) == ("POST", ["execute"]):
            ensure_token(request, identity)
            return await self.execute(request, response, identity, disconnected)
        ensure_token_of_traffic(request, identity)
        match method, path:
            case "GET", ["contexts"]:
                await response.send_json(200, [context.describe() for context in self.contexts.contexts.values()])
            case "POST", ["contexts"]:
                body = await read_body(request)
                ensure_language(body)
                context = self.contexts.create(identity, get_text(body, "cwd"))
                await response.send_json(201, context.describe())
            case "DELETE", ["contexts", context_id]:
                self.contexts.remove(context_id)
                await response.send(204, b"", {})
            case "POST", ["contexts", context_id, "restart"]:
                self.contexts.get(context_id).stop()
                await response.send(204, b"", {})
            case _:
                raise HttpError(404, f"path '{request.path}' does not exist")

    async def execute(
        self, request: Request, response: Response, identity: Identity, disconnected: asyncio.Event
    ) -> None:
        """Execute code and send its events, each one at once. A client that disconnects interrupts it."""
        body = await read_body(request)
        ensure_language(body)
        code, env_vars, context_id = get_text(body, "code"), body.get("env_vars") or {}, get_text(body, "context_id")
        if not isinstance(env_vars, dict) or not all(is_variable(*pair) for pair in env_vars.items()):
            raise HttpError(400, "env_vars is not valid")
        context = self.contexts.get(context_id) if context_id else self.contexts.get_default(identity)
        response.start(200, {"Content-Type": "application/x-ndjson"})
        execution = asyncio.ensure_future(self.send_events(context.execute(code, env_vars), response))
        leaving = asyncio.ensure_future(disconnected.wait())
        try:
            await asyncio.wait({execution, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if execution.done():
                execution.result()
        finally:
            leaving.cancel()
            execution.cancel()
            with contextlib.suppress(asyncio.CancelledError, ConnectionError):
                await execution

    async def send_events(self, events: Any, response: Response) -> None:
        async with contextlib.aclosing(events):
            async for event in events:
                await response.write(json.dumps(event).encode() + b"\n")
        await response.finish()


def ensure_token_of_traffic(request: Request, identity: Identity) -> None:
    """Accept the access token or the token of traffic, which is all that the SDK sends with calls about contexts."""
    token = request.headers.get("e2b-traffic-access-token", "")
    expected = derive_traffic_token(identity.access_token)
    if not has_valid_token(request, identity) and not hmac.compare_digest(token.encode(), expected.encode()):
        raise HttpError(401, "the access token is missing or not valid")


def derive_traffic_token(access_token: str) -> str:
    """Return the token of traffic. It does not reveal the access token. The sandbox API derives it the same way."""
    return hmac.new(access_token.encode(), b"traffic", hashlib.sha256).hexdigest()


async def read_body(request: Request) -> dict[str, Any]:
    try:
        body = json.loads(await request.body.read_all(MAX_JSON_BYTES) or b"{}")
    except ValueError as error:
        raise HttpError(400, "the body is not valid JSON") from error
    if not isinstance(body, dict):
        raise HttpError(400, "the body must be an object")
    return body


def ensure_language(body: dict[str, Any]) -> None:
    if body.get("language") not in LANGUAGES:
        raise HttpError(400, "only the language python is offered")


def get_text(body: dict[str, Any], name: str) -> str:
    value = body.get(name)
    if value is None:
        return ""
    if not isinstance(value, str) or "\0" in value:
        raise HttpError(400, f"{name} is not a valid text")
    return value


def is_variable(name: str, value: Any) -> bool:
    return isinstance(value, str) and "\0" not in name + value and "=" not in name and bool(name)
