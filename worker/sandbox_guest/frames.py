"""The frames of a channel that carries many byte streams, and how they are found in its bytes.

Both ends use this module; the copy in a guest image has only the standard library. The host opens streams, and the
guest accepts them. A frame is a type (u8), a stream id (u32) and a length (u32), all big-endian, and a payload:

| type | payload | meaning |
|---|---|---|
| HELLO | session id, 16 hexadecimal digits | follows `MARKER`; resets all streams; the stream id is the version |
| OPEN | port, u16 | the host asks for a connection to the port |
| OPENED | none | the connection is made |
| DATA | up to 64 KiB | bytes of the stream |
| END | none | the sender sends no more DATA |
| RESET | reason, ASCII | the stream ends in both directions |
| WINDOW | bytes, u32 | the receiver accepts that many bytes more |

The host starts a session by a HELLO with a random id, which the guest answers with the same id. A guest that lost its
session sends a HELLO with `NO_SESSION`; the host then starts another one. Neither end trusts what it received before:
channels have no notion of a connection, so each end may start in the middle of a frame, or of the frames of a session
that the other end has forgotten.

`MARKER` is found at any position, also within a frame. It occurs nowhere else: `split_payload` ends a frame in the
middle of it, and no header can complete it, because all its bytes are above 0x7f and types are below.
"""

import contextlib
import struct
from collections.abc import Callable

PROTOCOL_VERSION = 1
MARKER = bytes.fromhex(
    "e6e6e6e6e6e6e6e6e69191e6919191e6e6e69191e6e6e691e6e691919191e6e6"
    "e69191e6e6e691e6e69191e6e69191e691e69191919191919191919191919191"
)
"""No beginning of it is also its end: otherwise a part of a marker and a marker would make one too early. It has two
values and is long, because `bytes.find` skips faster that way."""

NO_SESSION = b"0" * 16
SESSION_ID_BYTES = 16

HELLO, OPEN, OPENED, DATA, END, RESET, WINDOW = range(7)
HEADER = struct.Struct(">BII")
MAX_PAYLOAD_BYTES = 64 * 1024

PAYLOAD_SIZES = {HELLO: (16, 16), OPEN: (2, 2), OPENED: (0, 0), END: (0, 0), RESET: (0, 64), WINDOW: (4, 4)}
"""Type → minimum and maximum size of its payload. DATA is read piece by piece."""


class ProtocolError(Exception):
    """The other end sent what is no frame of this protocol."""


def split_payload(payload: bytes) -> list[bytes]:
    """Cut the bytes so that no piece contains `MARKER`."""
    pieces = []
    while (position := payload.find(MARKER)) >= 0:
        cut = position + len(MARKER) // 2
        pieces.append(payload[:cut])
        payload = payload[cut:]
    pieces.append(payload)
    return pieces


def build_frame(kind: int, stream_id: int, payload: bytes = b"") -> bytes:
    return HEADER.pack(kind, stream_id, len(payload)) + payload


class ChannelParser:
    """Cuts a byte sequence into frames. DATA is passed on in pieces, so a frame need not be complete."""

    def __init__(self, on_frame: Callable[[int, int, bytes], None]) -> None:
        self.on_frame = on_frame
        self.is_synchronized = False
        """Whether a HELLO was read and every byte since belonged to a frame."""
        self.recent = b""
        """The last bytes, which may be the beginning of a marker."""
        self.partial = b""
        """The beginning of a frame that is no DATA, or of a header."""
        self.stream_id = self.remaining = 0
        """The stream of the current DATA frame, and how many bytes of it are missing."""

    def feed(self, chunk: bytes) -> None:
        """Pass the frames of the chunk on. Raises `ProtocolError`; bytes are then skipped up to the next marker."""
        while chunk:
            end = self.find_marker_end(chunk)
            if end is None:
                self.recent = (self.recent + chunk[1 - len(MARKER) :])[1 - len(MARKER) :]
                self.parse_if_synchronized(chunk)
                return
            # Bytes of the marker at the end of the chunk before were parsed already, which a reset follows.
            with contextlib.suppress(ProtocolError):
                self.parse_if_synchronized(chunk[: max(0, end - len(MARKER))])
            self.recent = self.partial = b""
            self.remaining, self.is_synchronized = 0, True
            chunk = chunk[end:]

    def find_marker_end(self, chunk: bytes) -> int | None:
        """Return the index after the first marker, which may have begun in the chunk before."""
        if self.recent and (position := (self.recent + chunk[: len(MARKER) - 1]).find(MARKER)) >= 0:
            return position + len(MARKER) - len(self.recent)
        position = chunk.find(MARKER)
        return None if position < 0 else position + len(MARKER)

    def parse_if_synchronized(self, chunk: bytes) -> None:
        if not self.is_synchronized:
            return
        try:
            self.parse(chunk)
        except ProtocolError:
            self.is_synchronized = False
            self.partial, self.remaining = b"", 0
            raise

    def parse(self, chunk: bytes) -> None:
        position, size = 0, len(chunk)
        if self.partial:
            chunk, self.partial = self.partial + chunk, b""
            size = len(chunk)
        while position < size:
            if self.remaining:
                end = min(size, position + self.remaining)
                self.remaining -= end - position
                self.on_frame(DATA, self.stream_id, chunk[position:end])
                position = end
                continue
            if size - position < HEADER.size:
                break
            kind, stream_id, length = HEADER.unpack_from(chunk, position)
            if kind == DATA:
                if not 0 < length <= MAX_PAYLOAD_BYTES:
                    raise ProtocolError("A DATA frame has an impossible length.")
                self.stream_id, self.remaining = stream_id, length
                position += HEADER.size
                continue
            minimum, maximum = PAYLOAD_SIZES.get(kind, (1, 0))
            if not minimum <= length <= maximum:
                raise ProtocolError("A frame has an unknown type or an impossible length.")
            end = position + HEADER.size + length
            if end > size:
                break
            self.on_frame(kind, stream_id, chunk[position + HEADER.size : end])
            position = end
        self.partial = chunk[position:]
