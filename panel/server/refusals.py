"""Answers to requests that do not reach the application: invalid, too large or too slow ones. Below `/api` they follow
the dialect of the path, if the path could be read."""

import http
import json
from typing import NamedTuple
from urllib.parse import urlsplit

from api.errors import CROSS_ORIGIN_HEADERS, build_sandbox_failure, find_dialect


class Refusal(NamedTuple):
    status: int
    message: str


BAD_REQUEST = Refusal(400, "This is no valid HTTP request.")
BAD_HOST = Refusal(400, "The request needs one Host header with the panel's address.")
BODY_INCOMPLETE = Refusal(400, "The request ended before its body was complete.")
TIMED_OUT = Refusal(408, "The request took too long to arrive.")
TARGET_TOO_LONG = Refusal(414, "The address is too long.")
UNKNOWN_EXPECTATION = Refusal(417, "The Expect header asks for what is not known here.")
HEAD_TOO_LARGE = Refusal(431, "The headers are too large, or too many.")
CRASH_REFUSAL = Refusal(500, "An internal error occurred.")
UNKNOWN_CODING = Refusal(501, "The body comes in a coding that is not known here.")
UNKNOWN_METHOD = Refusal(501, "This method is not known here.")
PAGE_TEMPLATE = (
    "<!doctype html><html><head><title>{reason}</title></head><body><h1>{reason}</h1>{message}</body></html>\n"
)


def parse_target_path(target: bytes) -> str:
    """Return the path of a request target, or an empty text when it cannot be parsed."""
    try:
        return urlsplit(target.decode("latin-1")).path
    except ValueError:
        return ""


def build_content(refusal: Refusal, path: str):
    """Return the headers and the body of the answer, in the dialect of the path."""
    api_dialect = find_dialect(path)
    if api_dialect == "sandbox":
        kind, body = "application/json", json.dumps(build_sandbox_failure(refusal.status, refusal.message))
    elif api_dialect:
        kind, body = "application/json", json.dumps({"success": False, "message": refusal.message})
    else:
        kind = "text/html; charset=utf-8"
        body = PAGE_TEMPLATE.format(reason=http.HTTPStatus(refusal.status).phrase, message=refusal.message)
    headers = {
        "Content-Type": kind,
        "Content-Length": str(len(body)),
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
    }
    if api_dialect == "admin":
        headers["X-Api-Envelope"] = "v1"
    elif api_dialect == "sandbox":
        headers |= CROSS_ORIGIN_HEADERS
    return headers, body.encode()


def serialize(refusal: Refusal, path: str) -> bytes:
    """Return the bytes of the whole answer, which announces that the connection is closed."""
    headers, body = build_content(refusal, path)
    lines = [f"HTTP/1.1 {refusal.status} {http.HTTPStatus(refusal.status).phrase}", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body
