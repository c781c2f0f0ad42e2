"""Where a request goes: the sandbox and the port, or the connector, that its host name or its headers name."""

import re
from dataclasses import dataclass
from urllib.parse import unquote

from h11 import Request

from panel.schemas.microvm_connectors import DAEMON_PORT, RESERVED_LABELS
from worker.sandbox_router.errors import RequestRefused

CONTROL_PATHS = {"/init", "/freeze", "/unfreeze", "/collapse", "/fsfreeze", "/fsthaw"}
"""Routes of E2B's own daemon that clients must not reach."""

HOST_LABEL = re.compile(r"([0-9]{1,5})-([a-z0-9]{1,32})")
CONNECTOR_LABEL = re.compile(r"(?![0-9]+-)[a-z0-9-]{1,63}")
SANDBOX_ID = re.compile(r"[a-z0-9]{1,32}")
PORT = re.compile(r"[0-9]{1,5}")


@dataclass(frozen=True)
class Destination:
    sandbox_id: str
    port: int
    is_connector: bool = False
    """Whether the client knows nothing but the label of a connector. Its answers must not show the sandbox's id, with
    which every port can be reached."""


def find_destination(request: Request, sandbox_domain: str) -> Destination | str | None:
    """Return where the request goes, the label of its connector, or None when it is for the router itself.

    Raises `RequestRefused`.

    A host of the sandbox domain is the only authority for its requests, because pages of one sandbox could name
    another one in headers. On every other host the headers count.
    """
    host = remove_port(get_header(request, b"host") or "").lower().rstrip(".")
    domain = remove_port(sandbox_domain)
    if domain and (host == domain or host.endswith(f".{domain}")):
        label = host[: -len(domain) - 1]
        if match := HOST_LABEL.fullmatch(label):
            return build_destination(match[2], match[1])
        if CONNECTOR_LABEL.fullmatch(label) and label not in RESERVED_LABELS:
            return label
        raise RequestRefused(400, "The host name names no sandbox and port")
    sandbox_id, port = get_header(request, b"e2b-sandbox-id"), get_header(request, b"e2b-sandbox-port")
    if sandbox_id is None and port is None:
        return None
    if sandbox_id and port and SANDBOX_ID.fullmatch(sandbox_id) and PORT.fullmatch(port):
        return build_destination(sandbox_id, port)
    raise RequestRefused(400, "The headers E2b-Sandbox-Id and E2b-Sandbox-Port name no sandbox and port")


def build_destination(sandbox_id: str, port: str) -> Destination:
    if not 0 < int(port) < 2**16:
        raise RequestRefused(400, "The port is not valid", sandboxId=sandbox_id)
    return Destination(sandbox_id, int(port))


def remove_port(host: str) -> str:
    name, separator, port = host.rpartition(":")
    return name if separator and port.isdigit() else host


def get_header(request: Request, name: bytes) -> str | None:
    """Return the header's only value, or None. Raises `RequestRefused` when it is there more than once."""
    values = [value for header, value in request.headers if header == name]
    if len(values) > 1:
        raise RequestRefused(400, f"The header {name.decode()} is there more than once")
    return values[0].decode("latin-1").strip() if values else None


def ensure_no_control_route(request: Request, destination: Destination) -> None:
    """Raise `RequestRefused` for a route of the daemon that clients must not reach."""
    path = "/" + unquote(request.target.decode("latin-1").partition("?")[0]).strip("/")
    if destination.port == DAEMON_PORT and path in CONTROL_PATHS:
        raise RequestRefused(404, "There is no such route", sandboxId=destination.sandbox_id)
