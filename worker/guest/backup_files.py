"""Asking the machine that reads a backup. What it answers is not trusted, because a file system in the backup may have
been made to take it over."""

import json
import secrets
import socket
from collections.abc import Callable
from typing import Any

from panel.core.messages import message
from worker.nodes.base import NodeDriver, NodeError

COMMAND = "/usr/lib/guest/files"
MAX_NAME_CHARACTERS = 1024
"""Characters of a name of 255 bytes, each written as %XX, and of the target of a link that is shown."""
MAX_VOLUMES = 100
MAX_FRAME_BYTES = 1024**2
CHANNEL_TIMEOUT_SECONDS = 60
READ_BYTES = 256 * 1024
ENTRY_TYPES = ("folder", "file", "link", "other", "damaged")
VOLUME_ERRORS = ("encrypted", "unsupported", "damaged")
NO_ANSWER_MESSAGE = message("The machine that reads the backup does not answer. Close the files and open them again.")


def make_error(detail: str) -> NodeError:
    return NodeError(NO_ANSWER_MESSAGE, detail)


def call(node: NodeDriver, machine_id: str, *arguments: str) -> dict[str, Any]:
    result = node.agent_run(machine_id, [COMMAND, *arguments])
    try:
        answer = json.loads(result.output.partition("\n")[0])
        return dict(answer)
    except (ValueError, TypeError) as error:
        raise make_error(f"exit code {result.exit_code}, output {result.output[:500]!r}") from error


def read_volumes(node: NodeDriver, machine_id: str) -> list[dict[str, Any]] | None:
    """Return the file systems, or None while they are being mounted."""
    answer = call(node, machine_id, "status")
    if not answer.get("ready"):
        return None
    return [clean_volume(volume) for volume in check_list(answer.get("volumes"))[:MAX_VOLUMES]]


def list_folder(node: NodeDriver, machine_id: str, path: str, after: str, limit: int) -> dict[str, Any]:
    """Return `entries` and `has_more`, or `error`."""
    answer = call(node, machine_id, "list", path, after, str(limit))
    if "error" in answer:
        return {"error": clean_text(answer["error"])}
    entries = [clean_entry(entry) for entry in check_list(answer.get("entries"))[:limit]]
    return {"entries": entries, "has_more": answer.get("has_more") is True}


def check_list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise make_error("a list is missing")
    return value


def clean_text(value: Any) -> str:
    """Return a text that can be stored and shown."""
    return "".join(char for char in str(value)[:MAX_NAME_CHARACTERS] if char.isprintable())


def clean_number(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < 2**62 else None


def clean_entry(entry: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(entry, dict) or entry.get("type") not in ENTRY_TYPES:
        raise make_error("an entry is wrong")
    target = {"target": clean_text(entry["target"])} if "target" in entry else {}
    return {
        "name": clean_text(entry.get("name")).replace("/", ""),
        "type": entry["type"],
        "size": clean_number(entry.get("size")),
        "modified_at": clean_number(entry.get("modified_at")),
        **target,
    }


def clean_volume(volume: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(volume, dict):
        raise make_error("a file system is wrong")
    error = volume.get("error")
    return {
        "name": clean_text(volume.get("name")).replace("/", ""),
        "kind": clean_text(volume.get("kind")),
        "label": clean_text(volume.get("label")),
        "size": clean_number(volume.get("size")),
        "error": error if error is None or error in VOLUME_ERRORS else "damaged",
    }


class Frames:
    """What arrives through the channel."""

    def __init__(self, channel: socket.socket) -> None:
        self.channel, self.buffer = channel, bytearray()

    def fill(self) -> None:
        try:
            data = self.channel.recv(READ_BYTES)
        except OSError as error:  # a time-out too
            raise make_error(f"channel: {error}") from error
        if not data:
            raise make_error("the channel has ended")
        self.buffer += data

    def skip_to(self, mark: bytes) -> None:
        """Discard everything up to the mark: the rest of an earlier answer."""
        while (start := self.buffer.find(mark)) < 0:
            del self.buffer[: -len(mark)]
            self.fill()
        del self.buffer[: start + len(mark)]

    def take(self, count: int) -> bytes:
        while len(self.buffer) < count:
            self.fill()
        data = bytes(self.buffer[:count])
        del self.buffer[:count]
        return data

    def read(self) -> tuple[bytes, bytes]:
        """Return letter and content of the next frame."""
        letter, length = self.take(1), int.from_bytes(self.take(4), "big")
        if length > MAX_FRAME_BYTES:
            raise make_error("a frame is too long")
        return letter, self.take(length)


def receive(
    channel: socket.socket,
    path: str,
    *,
    limit: int,
    write: Callable[[bytes], Any],
    report: Callable[[int], None],
) -> tuple[str | None, bool]:
    """Write a file, or a folder as a tar archive. Return why it could not be read, or None, and whether it is an
    archive. `report` is called with the bytes so far, and may raise."""
    mark = secrets.token_hex(32)
    request = {"id": mark, "path": path, "limit": limit}
    channel.settimeout(CHANNEL_TIMEOUT_SECONDS)
    frames, size = Frames(channel), 0
    try:
        channel.sendall(f"\n{json.dumps(request)}\n".encode())
    except OSError as error:
        raise make_error(f"channel: {error}") from error
    frames.skip_to(mark.encode())
    while True:
        letter, data = frames.read()
        if letter == b"E":
            return parse_end(data)
        size += len(data)
        if letter != b"D" or size > limit:
            raise make_error("a frame is wrong")
        write(data)
        report(size)


def parse_end(data: bytes) -> tuple[str | None, bool]:
    try:
        end = dict(json.loads(data))
    except (ValueError, TypeError) as error:
        raise make_error("the last frame is wrong") from error
    error_code = end.get("error")
    return None if error_code is None else clean_text(error_code), end.get("is_archive") is True
