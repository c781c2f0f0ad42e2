"""Heads of requests and answers: their limits, and the headers that concern one connection only."""

from collections.abc import Iterable

import h11

from worker.sandbox_router.errors import RequestRefused

MAX_HEAD_BYTES = 64 * 1024
RawHeaders = list[tuple[bytes, bytes]]

HOP_BY_HOP_HEADERS = {b"connection", b"keep-alive", b"proxy-connection", b"proxy-authorization", b"te", b"upgrade"}
"""They are not passed on. h11 frames the body again by Transfer-Encoding."""


def ensure_request_can_pass(request: h11.Request) -> None:
    """Raise `RequestRefused` for what two programs could understand differently, and for a head that is too large."""
    if measure_head(request.headers) + len(request.target) > MAX_HEAD_BYTES:
        raise RequestRefused(431, "The head of the request is too large")
    if request.method == b"CONNECT" or not (request.target.startswith(b"/") or request.target == b"*"):
        raise RequestRefused(400, "The target of the request is not a path")
    names = {name for name, _value in request.headers}
    if b"transfer-encoding" in names and (b"content-length" in names or request.http_version < b"1.1"):
        raise RequestRefused(400, "The length of the request's body is ambiguous")


def measure_head(headers: Iterable[tuple[bytes, bytes]]) -> int:
    return sum(len(name) + len(value) + 4 for name, value in headers)


def has_upgrade(request: h11.Request) -> bool:
    has_protocol = any(name == b"upgrade" for name, _value in request.headers)
    return has_protocol and b"upgrade" in list_connection_options(request.headers)


def list_connection_options(headers: Iterable[tuple[bytes, bytes]]) -> set[bytes]:
    values = [value for name, value in headers if name == b"connection"]
    return {option.strip().lower() for value in values for option in value.split(b",")}


def build_forwarded_request(request: h11.Request) -> h11.Request:
    """Return the request for the guest, which ends the connection after its answer."""
    connection = b"Upgrade" if has_upgrade(request) else b"close"
    headers = build_forwarded_headers(request, connection)
    return h11.Request(method=request.method, target=request.target, headers=headers)


def build_forwarded_response(response: h11.Response) -> h11.Response:
    """Return the response for the client. The connection ends after it: otherwise a proxy in front could pass a second
    response, which the guest sends unasked, to another client."""
    headers = build_forwarded_headers(response, b"close")
    return h11.Response(status_code=response.status_code, headers=headers, reason=response.reason)


def build_forwarded_interim(response: h11.InformationalResponse) -> h11.InformationalResponse:
    connection = b"Upgrade" if response.status_code == 101 else None
    headers = build_forwarded_headers(response, connection)
    return h11.InformationalResponse(status_code=response.status_code, headers=headers, reason=response.reason)


def build_forwarded_headers(
    message: h11.Request | h11.Response | h11.InformationalResponse, connection: bytes | None
) -> RawHeaders:
    """Return the headers in their own spelling, without those for the connection on which they came."""
    removed = HOP_BY_HOP_HEADERS | list_connection_options(message.headers) - {
        b"host",
        b"content-length",
        b"transfer-encoding",
    }
    if connection == b"Upgrade":
        removed -= {b"upgrade"}
    forwarded = [(name, value) for name, value in message.headers.raw_items() if name.lower() not in removed]
    return [*forwarded, (b"Connection", connection)] if connection else forwarded
