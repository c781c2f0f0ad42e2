"""Requests and responses of HTTP/1.1."""

import asyncio
import json
import re
from http import HTTPStatus
from typing import Any, BinaryIO
from urllib.parse import parse_qsl, urlsplit

from .errors import HttpError
from .http_body import Body
from .http_stream import Reader, Writer, abort, send_file_part

REQUEST_LINE = re.compile(r"([A-Z]{1,20}) (\S+) HTTP/(1\.[01])")
HEADER_LINE = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*(.*?)[ \t]*")
CONTROL_CHARACTERS = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


class Request:
    """The head of a request, with its body to be read."""

    def __init__(self, head: bytes, reader: Reader, writer: Writer):
        self.received_at = asyncio.get_running_loop().time()
        lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
        match = REQUEST_LINE.fullmatch(lines[0])
        if not match:
            raise HttpError(400, "the request line is not valid")
        self.method, target, self.version = match.groups()
        if not target.startswith("/") and target != "*":  # the absolute form, which proxies send
            try:
                url = urlsplit(target)
            except ValueError as error:
                raise HttpError(400, "the target of the request is not valid") from error
            target = f"{url.path or '/'}?{url.query}"
        path, _separator, query = target.partition("?")
        self.path: str = path
        self.query: dict[str, str] = {}
        for name, value in parse_qsl(query, keep_blank_values=True):
            self.query.setdefault(name, value)
        self.headers = parse_headers(lines[1:])
        self.body = Body(reader, writer, self.headers)

    @property
    def content_type(self) -> str:
        """Return the media type of the body in lower case, without parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def keeps_connection(self) -> bool:
        options = [option.strip() for option in self.headers.get("connection", "").lower().split(",")]
        return "close" not in options and (self.version == "1.1" or "keep-alive" in options)


def parse_headers(lines: list[str]) -> dict[str, str]:
    """Return {name in lower case: value}. Values of repeated headers are joined by commas."""
    headers: dict[str, str] = {}
    for line in lines:
        match = HEADER_LINE.fullmatch(line)
        if not match or CONTROL_CHARACTERS.search(line):
            raise HttpError(400, "a header is not valid")
        name, value = match[1].lower(), match[2]
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


class Response:
    """Writes the answer to one request. Each message of a stream is sent at once."""

    def __init__(self, writer: Writer, request: Request | None):
        self.writer = writer
        self.request = request
        self.is_started = False
        self.is_finished = False
        self.is_chunked = False
        self.keeps_connection = request is not None and request.keeps_connection

    def start(self, status: int, headers: dict[str, str], length: int | None = None) -> None:
        """Write the head. Without a length the body is chunked, or ends with the connection for HTTP/1.0."""
        self.is_started = True
        lines = [f"HTTP/1.1 {status} {get_reason(status)}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if length is not None:
            lines.append(f"Content-Length: {length}")
        elif status != 204:
            self.is_chunked = self.request is not None and self.request.version == "1.1"
            if self.is_chunked:
                lines.append("Transfer-Encoding: chunked")
            else:
                self.keeps_connection = False
        if self.request and "origin" in self.request.headers:
            lines += ["Access-Control-Allow-Origin: *", "Access-Control-Expose-Headers: *"]
        lines.append(f"Connection: {'keep-alive' if self.keeps_connection else 'close'}")
        self.writer.write("\r\n".join([*lines, "", ""]).encode("latin-1"))

    async def write(self, data: bytes) -> None:
        """Send a piece of the body and wait while the client does not read."""
        if self.is_chunked:
            data = b"%x\r\n%b\r\n" % (len(data), data)
        self.writer.write(data)
        await self.writer.drain()

    async def finish(self) -> None:
        """End the body."""
        if self.is_chunked:
            self.writer.write(b"0\r\n\r\n")
        self.is_finished = True
        await self.writer.drain()

    async def send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        """Send a whole answer."""
        self.start(status, headers, length=None if status == 204 else len(body))
        if body and not (self.request and self.request.method == "HEAD"):
            self.writer.write(body)
        self.is_finished = True
        await self.writer.drain()

    async def send_json(self, status: int, value: Any, headers: dict[str, str] | None = None) -> None:
        """Send a whole answer as JSON."""
        body = json.dumps(value, separators=(",", ":")).encode()
        await self.send(status, body, {"Content-Type": "application/json", **(headers or {})})

    async def send_error(self, status: int, message: str, headers: dict[str, str] | None = None) -> None:
        """Send the error in the form that the clients expect outside of calls."""
        await self.send_json(status, {"code": status, "message": message}, headers)

    def abort(self) -> None:
        """End the connection at once. What was not sent is dropped."""
        abort(self.writer)

    async def send_file(self, file: BinaryIO, offset: int, count: int) -> None:
        """Send a part of a file."""
        await self.writer.drain()
        if count and await send_file_part(self.writer, file, offset, count) != count:
            raise ConnectionAbortedError("the file became shorter while it was sent")
        self.is_finished = True


def get_reason(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Error"
