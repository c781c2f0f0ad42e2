"""The Connect protocol with JSON messages: unary calls, streams of envelopes, and reading fields of messages."""

import asyncio
import base64
import binascii
import json
import re
import struct
from collections.abc import AsyncIterator, Coroutine
from typing import Any

from .errors import HttpError, RpcError
from .http_body import MAX_JSON_BYTES, Body
from .http_messages import Request, Response

ENVELOPE_HEAD = struct.Struct(">BI")
COMPRESSED_FLAG = 0x01
END_FLAG = 0x02
UNARY_TYPE = "application/json"
STREAM_TYPE = "application/connect+json"
DEFAULT_KEEPALIVE_SECONDS = 90.0
MAX_TIMEOUT_DIGITS = 10

Message = dict[str, Any]


def encode_envelope(payload: bytes, flags: int = 0) -> bytes:
    return ENVELOPE_HEAD.pack(flags, len(payload)) + payload


def encode_message(message: Message) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode()


def parse_message(payload: bytes) -> Message:
    """Return the message of a JSON document; an empty one has no fields."""
    try:
        message = json.loads(payload) if payload else {}
    except (ValueError, RecursionError) as error:
        raise RpcError("invalid_argument", "the message is not valid JSON") from error
    if not isinstance(message, dict):
        raise RpcError("invalid_argument", "the message is not a JSON object")
    return message


async def read_envelopes(body: Body) -> AsyncIterator[Message]:
    """Yield the messages of a stream until its end."""
    data = bytearray()
    while True:
        while len(data) < ENVELOPE_HEAD.size or len(data) < ENVELOPE_HEAD.size + ENVELOPE_HEAD.unpack_from(data)[1]:
            piece = await body.read()
            if not piece:
                if data:
                    raise RpcError("invalid_argument", "the stream ends within an envelope")
                return
            data += piece
            if len(data) >= ENVELOPE_HEAD.size:
                ensure_envelope_is_readable(*ENVELOPE_HEAD.unpack_from(data))
        flags, length = ENVELOPE_HEAD.unpack_from(data)
        ensure_envelope_is_readable(flags, length)
        if flags & END_FLAG:
            return
        payload = bytes(data[ENVELOPE_HEAD.size : ENVELOPE_HEAD.size + length])
        del data[: ENVELOPE_HEAD.size + length]
        yield parse_message(payload)


def ensure_envelope_is_readable(flags: int, length: int) -> None:
    if flags & COMPRESSED_FLAG:
        raise RpcError("internal", "an envelope is compressed, although no compression was agreed on")
    if length > MAX_JSON_BYTES:
        raise RpcError("resource_exhausted", f"an envelope is larger than {MAX_JSON_BYTES} bytes")


async def read_single_message(body: Body) -> Message:
    """Return the only message of a stream."""
    message: Message | None = None
    async for envelope in read_envelopes(body):
        if message is not None:
            raise RpcError("invalid_argument", "the request must have exactly one message")
        message = envelope
    if message is None:
        raise RpcError("invalid_argument", "the request has no message")
    return message


def get_timeout_seconds(request: Request) -> float | None:
    """Return the time limit of the call, or None."""
    text = request.headers.get("connect-timeout-ms", "")
    if not text or text == "0":
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= MAX_TIMEOUT_DIGITS):
        raise RpcError("invalid_argument", "Connect-Timeout-Ms is not valid")
    return int(text) / 1000


def get_deadline(request: Request) -> float | None:
    """Return when the time limit of the call is over, by the clock of the event loop, or None.

    It counts from the request: the first SDKs give up by themselves as long after the first message of the answer, and
    raise another error then.
    """
    seconds = get_timeout_seconds(request)
    return None if seconds is None else request.received_at + seconds


def get_keepalive_seconds(request: Request) -> float:
    """Return after how many seconds of silence the client wants a keepalive message."""
    text = request.headers.get("keepalive-ping-interval", "")
    if re.fullmatch(r"[0-9]{1,6}", text) and int(text):
        return float(text)
    return DEFAULT_KEEPALIVE_SECONDS


def ensure_content_type(request: Request, expected: str) -> None:
    if request.content_type != expected:
        raise HttpError(415, f"the content type must be {expected}", {"Accept-Post": expected})


class MessageStream:
    """Sends the messages of a server stream, each one at once."""

    def __init__(self, request: Request, response: Response):
        self.request = request
        self.response = response
        self.keepalive = get_keepalive_seconds(request)

    async def send(self, payload: bytes) -> None:
        """Send a message and wait while the client does not read."""
        self.start()
        await self.response.write(encode_envelope(payload))

    def start(self) -> None:
        if not self.response.is_started:
            self.response.start(200, {"Content-Type": STREAM_TYPE})

    async def end(self, error: RpcError | None = None) -> None:
        """Send the end of the stream."""
        self.start()
        end = {"error": {"code": error.code, "message": error.message}} if error else {}
        await self.response.write(encode_envelope(encode_message(end), END_FLAG))
        await self.response.finish()


async def run_until_disconnected(call: Coroutine[Any, Any, None], disconnected: asyncio.Event) -> None:
    """Run a call; cancel it when its client disconnects."""
    task = asyncio.ensure_future(call)
    watcher = asyncio.ensure_future(disconnected.wait())
    try:
        await asyncio.wait({task, watcher}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            task.cancel()
            await asyncio.wait({task})
            raise ConnectionResetError("the client has disconnected")
        task.result()
    finally:
        watcher.cancel()
        task.cancel()


def get_field(message: Message, name: str) -> Any:
    """Return a field by its lowerCamelCase name, also when it was sent in snake_case, or None."""
    value = message.get(name)
    return message.get(re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", name)) if value is None else value


def get_text(message: Message, name: str) -> str:
    """Return a text, empty when it is absent."""
    value = get_field(message, name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise RpcError("invalid_argument", f"{name} must be a string")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise RpcError("invalid_argument", f"{name} is not valid Unicode") from error
    if "\0" in value:
        raise RpcError("invalid_argument", f"{name} contains a null character")
    return value


def get_texts(message: Message, name: str) -> list[str]:
    """Return a list of texts, empty when it is absent."""
    values = get_field(message, name) or []
    if not isinstance(values, list):
        raise RpcError("invalid_argument", f"{name} must be a list")
    return [get_text({name: value}, name) for value in values]


def get_text_map(message: Message, name: str) -> dict[str, str]:
    """Return an object with texts as values, empty when it is absent."""
    values = get_field(message, name) or {}
    if not isinstance(values, dict):
        raise RpcError("invalid_argument", f"{name} must be an object")
    return {get_text({name: key}, name): get_text({name: value}, name) for key, value in values.items()}


def get_message(message: Message, name: str) -> Message:
    """Return a message within a message, without fields when it is absent."""
    value = get_field(message, name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise RpcError("invalid_argument", f"{name} must be an object")
    return value


def get_number(message: Message, name: str) -> int:
    """Return an unsigned number of 32 bits, which may be written as a string; 0 when it is absent."""
    value = get_field(message, name)
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,10}", value):
        value = int(value)
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**32:
        raise RpcError("invalid_argument", f"{name} must be an unsigned number of 32 bits")
    return value


def get_flag(message: Message, name: str, default: bool = False) -> bool:
    value = get_field(message, name)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise RpcError("invalid_argument", f"{name} must be a boolean")
    return value


def get_bytes(message: Message, name: str) -> bytes:
    """Return bytes from base64, of the standard or the URL alphabet, with or without padding."""
    text = get_text(message, name).translate({ord("-"): "+", ord("_"): "/"}).rstrip("=")
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError) as error:
        raise RpcError("invalid_argument", f"{name} is not valid base64") from error
