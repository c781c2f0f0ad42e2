"""What a web process serves: endpoints on the event loop, and everything else by Flask on threads.

An endpoint on the loop is for what stays open: event streams, calls that take minutes, streams to sandboxes. It is an
ASGI application, costs no thread, and must never wait but by `await`. It is named by a pattern for the whole path; the
groups of the pattern are its `scope["path_params"]`. `scope["state"]["stopping"]` is an asyncio.Event that is set when
the process is asked to end: whatever stays open ends then.
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
            if found := route.pattern.fullmatch(scope["path"]):
                scope["path_params"] = found.groupdict()
                scope["state"]["stopping"] = self.stopping
                scope["state"]["answers_after_eof"] = False
                return await route.endpoint(scope, receive, send)
        return await self.wsgi(scope, receive, send)
