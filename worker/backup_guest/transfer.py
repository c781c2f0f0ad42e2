"""Sending files through the port to the panel.

A request is a line of JSON: `{"id": …, "path": …, "limit": …}`. A folder is sent as a tar archive. The answer is the
id, which nobody else can know, then frames: a letter, the length in four bytes, the content. D has data, E is the end
as JSON. A caller that opens the port again discards what it reads before its id; the answer to an earlier request ends
when another request arrives.
"""

import json
import os
import select
import tarfile
import time
from pathlib import Path
from typing import Any

from .errors import TOO_LARGE, UNREADABLE, Refused
from .names import decode_path
from .tree import is_folder, open_file

BLOCK_BYTES = 256 * 1024
MAX_REQUEST_BYTES = 64 * 1024
RETRY_SECONDS = 0.1
"""Pause when nobody has opened the other end of the port."""


class Superseded(Exception):
    """Another request has arrived."""


class Port:
    """The port, or a socket in tests, which `ends`."""

    def __init__(self, file: int, *, ends: bool = False) -> None:
        self.file, self.ends, self.received = file, ends, b""

    def read_request(self) -> dict[str, Any] | None:
        """Return the next request, or None when the socket has ended."""
        while True:
            while b"\n" not in self.received:
                data = os.read(self.file, MAX_REQUEST_BYTES)
                if not data and self.ends:
                    return None
                if not data:
                    time.sleep(RETRY_SECONDS)
                self.received = (self.received + data)[-MAX_REQUEST_BYTES:]
            line, _, self.received = self.received.partition(b"\n")
            try:
                request = json.loads(line)
                return {name: request[name] for name in ("id", "path", "limit")}
            except (ValueError, TypeError, KeyError):
                continue  # an empty line, or the rest of what an earlier caller sent

    def write(self, data: bytes) -> None:
        if self.received or select.select([self.file], [], [], 0)[0]:
            data_received = os.read(self.file, MAX_REQUEST_BYTES)
            if data_received or self.ends:
                self.received += data_received
                raise Superseded
        view = memoryview(data)
        while view:
            view = view[os.write(self.file, view) :]

    def write_frame(self, letter: bytes, data: bytes) -> None:
        self.write(letter + len(data).to_bytes(4, "big") + data)


class DataWriter:
    """A file to write to, which sends frames and refuses more than `limit` bytes."""

    def __init__(self, port: Port, limit: int) -> None:
        self.port, self.limit, self.size = port, limit, 0
        self.buffer = bytearray()

    def write(self, data: bytes) -> int:
        self.size += len(data)
        if self.size > self.limit:
            raise Refused(TOO_LARGE)
        self.buffer += data
        if len(self.buffer) >= BLOCK_BYTES:
            self.flush()
        return len(data)

    def flush(self) -> None:
        if self.buffer:
            self.port.write_frame(b"D", bytes(self.buffer))
            self.buffer.clear()


def serve(port: Port, root: Path) -> None:
    """Answer requests until the port ends."""
    while request := port.read_request():
        try:
            answer(port, root, request)
        except Superseded:
            continue


def answer(port: Port, root: Path, request: dict[str, Any]) -> None:
    port.write(str(request["id"]).encode())
    writer = DataWriter(port, request["limit"])
    error, is_archive = None, False
    try:
        names = decode_path(request["path"])
        is_archive = is_folder(root, names)
        (send_archive if is_archive else send_file)(writer, root, names)
        writer.flush()
    except Refused as refusal:
        error = refusal.code
    except (OSError, RecursionError):  # the latter for folders that are nested too deeply for an archive
        error = UNREADABLE
    port.write_frame(b"E", json.dumps({"error": error, "is_archive": is_archive}).encode())


def send_file(writer: DataWriter, root: Path, names: list[bytes]) -> None:
    with open_file(root, names) as file:
        if os.fstat(file).st_size > writer.limit:
            raise Refused(TOO_LARGE)
        while data := os.read(file, BLOCK_BYTES):
            writer.write(data)


def send_archive(writer: DataWriter, root: Path, names: list[bytes]) -> None:
    """Send a folder as a tar archive. Links are stored as links; devices, pipes and sockets are left out. No name in
    the path is a link, as `is_folder` has shown: nothing changes these file systems."""
    folder = os.path.join(os.fsencode(root), *names)
    file: Any = writer
    with tarfile.open(fileobj=file, mode="w|", format=tarfile.PAX_FORMAT, errors="surrogateescape") as archive:
        archive.add(os.fsdecode(folder), os.fsdecode(names[-1]) if names else "files", filter=choose_member)


def choose_member(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    member.uname = member.gname = ""  # the names in this machine mean nothing
    return member if member.isreg() or member.isdir() or member.issym() or member.islnk() else None
