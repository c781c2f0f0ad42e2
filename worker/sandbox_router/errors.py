"""Requests that are answered by the router itself."""

import json
from typing import Any

CORS_HEADERS = (("Access-Control-Allow-Origin", "*"), ("Access-Control-Expose-Headers", "*"))
"""Browsers hide answers without them from SDKs that run in pages."""


class RequestRefused(Exception):
    """A request that is not passed on. `fields` are the answer's body besides `code`; SDKs tell some texts apart."""

    def __init__(self, status: int, text: str, **fields: Any) -> None:
        super().__init__(text)
        self.status, self.fields = status, fields

    def build_body(self) -> bytes:
        return json.dumps({**self.fields, "message": str(self), "code": self.status}).encode()


def build_not_found(sandbox_id: str) -> RequestRefused:
    """Return the answer for a sandbox that does not exist or does not run."""
    return RequestRefused(502, "The sandbox was not found", sandboxId=sandbox_id)


def build_port_closed(sandbox_id: str, port: int) -> RequestRefused:
    """Return the answer for a port of a running sandbox where no program listens."""
    return RequestRefused(502, "The sandbox is running but port is not open", sandboxId=sandbox_id, port=port)


def build_unreachable(sandbox_id: str) -> RequestRefused:
    """Return the answer for a sandbox that runs, as far as is known, and does not respond."""
    return RequestRefused(502, "The sandbox does not respond", sandboxId=sandbox_id)
