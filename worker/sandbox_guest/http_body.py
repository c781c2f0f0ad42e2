"""Reading the bodies of requests in pieces: with a length or chunked, plain or gzip."""

import asyncio
import zlib

from .errors import HttpError
from .http_stream import Reader, Writer, has_received

PIECE_BYTES = 256 * 1024
"""The largest piece of a body that is held in memory."""
BODY_IDLE_TIMEOUT_SECONDS = 120.0
"""How long a client may pause within a body."""
MAX_JSON_BYTES = 8 * 1024 * 1024
MAX_CHUNK_HEAD_BYTES = 4096
MAX_TRAILER_LINES = 100
GZIP_WINDOW_BITS = 16 + zlib.MAX_WBITS


class GzipDecoder:
    """Decompresses a gzip stream in pieces of at most PIECE_BYTES, so that a small body cannot fill the memory."""

    def __init__(self) -> None:
        self.decompressor = zlib.decompressobj(GZIP_WINDOW_BITS)
        self.pending = b""

    def feed(self, data: bytes) -> None:
        self.pending += data

    def read(self) -> bytes:
        """Return the next decompressed piece, or nothing when more input is needed."""
        while self.pending:
            if self.decompressor.eof:  # the next member of the same stream
                self.decompressor = zlib.decompressobj(GZIP_WINDOW_BITS)
            try:
                piece = self.decompressor.decompress(self.pending, PIECE_BYTES)
            except zlib.error as error:
                raise HttpError(400, "the body is not valid gzip") from error
            self.pending = self.decompressor.unused_data or self.decompressor.unconsumed_tail
            if piece:
                return piece
        return b""

    def ensure_complete(self) -> None:
        if not self.decompressor.eof:
            raise HttpError(400, "the gzip body is incomplete")


class Body:
    """The body of a request, which is read from the connection only when a handler asks for it."""

    def __init__(self, reader: Reader, writer: Writer, headers: dict[str, str]):
        self.reader = reader
        self.writer = writer
        self.is_chunked = has_chunked_body(headers)
        self.remaining = 0 if self.is_chunked else get_content_length(headers)
        self.is_complete = not self.is_chunked and self.remaining == 0
        self.must_continue = headers.get("expect", "").lower() == "100-continue"
        self.idle_timeout: float | None = BODY_IDLE_TIMEOUT_SECONDS
        self.encoding = headers.get("content-encoding", "").strip().lower()
        self.decoder = GzipDecoder() if self.encoding in ("gzip", "x-gzip") else None

    async def read(self) -> bytes:
        """Return the next piece of the decoded body, or nothing at its end."""
        if self.decoder is None:
            if self.encoding not in ("", "identity"):
                raise HttpError(400, f"unknown content encoding '{self.encoding}'")
            return await self.read_encoded()
        while not (piece := self.decoder.read()):
            data = await self.read_encoded()
            if not data:
                self.decoder.ensure_complete()
                return b""
            self.decoder.feed(data)
        return piece

    async def read_encoded(self) -> bytes:
        """Return the next piece of the body as it was sent, or nothing at its end."""
        if self.is_complete:
            return b""
        if self.must_continue:
            self.must_continue = False
            self.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if not self.is_chunked and has_received(self.reader):  # a time limit costs more than the piece
            return await self._read_piece()
        try:
            async with asyncio.timeout(self.idle_timeout):
                return await self._read_piece()
        except TimeoutError as error:
            raise HttpError(408, "the body was not received in time") from error

    async def _read_piece(self) -> bytes:
        if self.is_chunked and self.remaining == 0:
            self.remaining = await self._read_chunk_head()
            if self.remaining == 0:
                await self._skip_trailers()
                self.is_complete = True
                return b""
        piece = await self.reader.read(min(self.remaining, PIECE_BYTES))
        if not piece:
            raise ConnectionResetError("the client closed the connection within a body")
        self.remaining -= len(piece)
        if self.remaining == 0:
            if self.is_chunked:
                if await self.reader.readexactly(2) != b"\r\n":
                    raise HttpError(400, "a chunk has no end")
            else:
                self.is_complete = True
        return piece

    async def _read_chunk_head(self) -> int:
        line = await self._read_line()
        digits = line.partition(b";")[0].strip()
        if not digits or len(digits) > 15 or digits.strip(b"0123456789abcdefABCDEF"):
            raise HttpError(400, "a chunk has no valid length")
        return int(digits, 16)

    async def _skip_trailers(self) -> None:
        for _line in range(MAX_TRAILER_LINES):
            if not await self._read_line():
                return
        raise HttpError(400, "the body has too many trailers")

    async def _read_line(self) -> bytes:
        try:
            line = await self.reader.readuntil(b"\r\n")
        except asyncio.LimitOverrunError as error:
            raise HttpError(400, "a line of the chunked body is too long") from error
        if len(line) > MAX_CHUNK_HEAD_BYTES:
            raise HttpError(400, "a line of the chunked body is too long")
        return line[:-2]

    async def read_all(self, maximum: int = MAX_JSON_BYTES) -> bytes:
        """Return the whole body; raises HttpError 413 when it is larger than the maximum."""
        pieces, size = [], 0
        while piece := await self.read():
            size += len(piece)
            if size > maximum:
                raise HttpError(413, f"the body is larger than {maximum} bytes")
            pieces.append(piece)
        return b"".join(pieces)

    async def discard(self, maximum: int) -> bool:
        """Read and drop the rest of the body, at most `maximum` bytes. Return whether the end was reached."""
        if self.must_continue:  # the client has not sent it yet, and may not send it at all
            return False
        while maximum > 0 and (piece := await self.read_encoded()):
            maximum -= len(piece)
        return self.is_complete


def has_chunked_body(headers: dict[str, str]) -> bool:
    encoding = headers.get("transfer-encoding", "").strip().lower()
    if not encoding:
        return False
    if encoding != "chunked" or "content-length" in headers:
        raise HttpError(400, "the transfer encoding is not supported")
    return True


def get_content_length(headers: dict[str, str]) -> int:
    text = headers.get("content-length", "0").strip()
    if not (text.isascii() and text.isdigit() and len(text) <= 15):
        raise HttpError(400, "the content length is not valid")
    return int(text)
