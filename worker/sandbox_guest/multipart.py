"""Reading `multipart/form-data` in pieces, so that an uploaded file is never in memory as a whole."""

import re
from urllib.parse import unquote

from .errors import HttpError
from .http_body import Body

BOUNDARY = re.compile(r'boundary=(?:"([^"\r\n]{1,200})"|([^;\s"]{1,200}))', re.IGNORECASE)
MAX_SECTION_HEAD_BYTES = 64 * 1024
NAME = re.compile(r'(?:^|[;\s])name=(?:"([^"]*)"|([^;\s]+))', re.IGNORECASE)
FILE_NAME = re.compile(r'(?:^|[;\s])filename=(?:"([^"]*)"|([^;\s]+))', re.IGNORECASE)
ENCODED_FILE_NAME = re.compile(r"filename\*=utf-8''([^;\s]+)", re.IGNORECASE)


class MultipartReader:
    """Reads the sections of a form one after the other."""

    def __init__(self, body: Body, content_type: str):
        match = BOUNDARY.search(content_type)
        if not match:
            raise HttpError(400, "the form has no boundary")
        self.body = body
        self.delimiter = b"\r\n--" + (match[1] or match[2]).encode("latin-1")
        # The first delimiter has no line break before it.
        self.data = b"\r\n"
        self.is_within_section = True

    async def find_section(self) -> tuple[str, str | None] | None:
        """Skip to the next section and return its (field name, file name), or None after the last one."""
        while self.is_within_section:
            await self.read()
        line = await self.read_until(b"\r\n", start=0)
        if line.strip(b" \t") == b"--":
            return None
        if line.strip(b" \t"):
            raise HttpError(400, "the form has a delimiter that is not valid")
        head = b"" if await self.starts_with(b"\r\n") else await self.read_until(b"\r\n\r\n", start=0)
        self.is_within_section = True
        return parse_disposition(head)

    async def starts_with(self, prefix: bytes) -> bool:
        """Return whether the prefix follows, and skip it if so."""
        while len(self.data) < len(prefix):
            await self.fill()
        if not self.data.startswith(prefix):
            return False
        self.data = self.data[len(prefix) :]
        return True

    async def read_until(self, end: bytes, start: int) -> bytes:
        """Return the data before `end`, and skip both."""
        while (position := self.data.find(end, start)) < 0:
            if end == b"\r\n" and self.data.strip(b" \t") == b"--" and not await self.try_fill():
                return self.data  # the last delimiter needs no line break
            if len(self.data) > MAX_SECTION_HEAD_BYTES:
                raise HttpError(400, "the head of a section of the form is too large")
            if not (end == b"\r\n" and self.data.strip(b" \t") == b"--"):
                await self.fill()
        content, self.data = self.data[:position], self.data[position + len(end) :]
        return content

    async def read(self) -> bytes:
        """Return the next piece of the section, or nothing at its end."""
        while self.is_within_section:
            position = self.data.find(self.delimiter)
            if position >= 0:
                piece, self.data = self.data[:position], self.data[position + len(self.delimiter) :]
                self.is_within_section = False
                return piece
            size = self.find_content_end()
            if size:
                piece, self.data = self.data[:size], self.data[size:]
                return piece
            await self.fill()
        return b""

    def find_content_end(self) -> int:
        """Return how much belongs to the section for certain: the end of what is there may be the begin of a delimiter.

        A delimiter has one carriage return, its first character.
        """
        position = self.data.rfind(b"\r", max(0, len(self.data) - len(self.delimiter) + 1))
        is_begin = position >= 0 and self.delimiter.startswith(self.data[position:])
        return position if is_begin else len(self.data)

    async def try_fill(self) -> bool:
        piece = await self.body.read()
        self.data = self.data + piece if self.data else piece
        return bool(piece)

    async def fill(self) -> None:
        if not await self.try_fill():
            raise HttpError(400, "the form ends too early")


def parse_disposition(head: bytes) -> tuple[str, str | None]:
    """Return (field name, file name) of the head of a section.

    Clients send names as they are and escape only double quotes, as `%22`. Folders in a file name are kept.
    """
    for line in head.decode("utf-8", "surrogateescape").split("\r\n"):
        header, _separator, value = line.partition(":")
        if header.strip().lower() == "content-disposition":
            name, file_name = NAME.search(value), FILE_NAME.search(value)
            encoded = ENCODED_FILE_NAME.search(value)
            return get_value(name) or "", unquote(encoded[1]) if encoded else get_value(file_name)
    return "", None


def get_value(match: re.Match[str] | None) -> str | None:
    return None if match is None else (match[1] if match[1] is not None else match[2]).replace("%22", '"')
