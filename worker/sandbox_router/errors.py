"""Requests that are answered by the router itself."""

import json
from html import escape
from http import HTTPStatus
from typing import Any

CORS_HEADERS = (("Access-Control-Allow-Origin", "*"), ("Access-Control-Expose-Headers", "*"))
"""Browsers hide answers without them from SDKs that run in pages."""

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>
body {{ font: 1rem/1.5 system-ui, sans-serif; margin: 0; min-height: 100vh; display: grid; place-items: center }}
main {{ max-width: 32rem; padding: 1.5rem }}
h1 {{ font-size: 1.375rem; margin: 0 0 .5rem }}
p {{ margin: 0; opacity: .75 }}
</style>
</head>
<body><main><h1>{title}</h1><p>{text}</p></main></body>
</html>
"""


class RequestRefused(Exception):
    """A request that is not passed on. `fields` are the answer's body besides `code`; SDKs tell some texts apart.

    `public_text` is what clients of a connector are told instead, without any field.
    """

    def __init__(self, status: int, text: str, *, public_text: str | None = None, **fields: Any) -> None:
        super().__init__(text)
        self.status, self.public_text, self.fields = status, public_text, fields

    def build_public_refusal(self) -> "RequestRefused":
        """Return the refusal for clients of a connector."""
        return RequestRefused(self.status, self.public_text or str(self))

    def build_body(self) -> bytes:
        return json.dumps({**self.fields, "message": str(self), "code": self.status}).encode()

    def build_page(self) -> bytes:
        """Return the body for people."""
        title = f"{self.status} {HTTPStatus(self.status).phrase}"
        return PAGE.format(title=escape(title), text=escape(f"{self}.")).encode()


def build_not_found(sandbox_id: str) -> RequestRefused:
    """Return the answer for a sandbox that does not exist or does not run."""
    public_text = "The micro VM of this address is not running"
    return RequestRefused(502, "The sandbox was not found", public_text=public_text, sandboxId=sandbox_id)


def build_port_closed(sandbox_id: str, port: int) -> RequestRefused:
    """Return the answer for a port of a running sandbox where no program listens."""
    return RequestRefused(
        502,
        "The sandbox is running but port is not open",
        public_text="The micro VM of this address is running, but no program answers at its port",
        sandboxId=sandbox_id,
        port=port,
    )


def build_unreachable(sandbox_id: str) -> RequestRefused:
    """Return the answer for a sandbox that runs, as far as is known, and does not respond."""
    public_text = "The micro VM of this address does not respond"
    return RequestRefused(502, "The sandbox does not respond", public_text=public_text, sandboxId=sandbox_id)


def build_connector_unknown() -> RequestRefused:
    return RequestRefused(404, "There is no such address")
