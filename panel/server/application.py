"""The ASGI application of a web process: async endpoints on the event loop, and everything else by Flask on threads.

Async endpoints are for long-lived requests: event streams, calls that take minutes, streams to sandboxes. Each is an
ASGI application that needs no thread and must not block. It is selected by a pattern for the whole path, whose groups
are in `scope["path_params"]`. `scope["state"]["stopping"]` is an asyncio.Event that is set when the process is asked to
stop; endpoints must end then.
"""

import asyncio
import re
from typing import NamedTuple


class AsyncRoute(NamedTuple):
    pattern: re.Pattern
    endpoint: object
    """`async def endpoint(scope, receive, send)`."""


class Application:
    def __init__(self, wsgi, routes: tuple[AsyncRoute, ...] = ()):
        self.wsgi, self.routes = wsgi, routes
        self.stopping = asyncio.Event()

    async def __call__(self, scope, receive, send):
        for route in self.routes:
            if match := route.pattern.fullmatch(scope["path"]):
                scope["path_params"] = match.groupdict()
                scope["state"]["stopping"] = self.stopping
                scope["state"]["answers_after_eof"] = False
                return await route.endpoint(scope, receive, send)
        return await self.wsgi(scope, receive, send)
