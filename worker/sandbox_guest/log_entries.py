"""The log of this sandbox: a bounded list of entries that wait until the host has fetched them.

The list is in the process of the channel. The daemon sends its entries to that process by a socket that only root can
use, and never waits for it.
"""

import asyncio
import contextlib
import json
import os
import socket
import time
from collections import deque
from pathlib import Path
from typing import Any

LOG_SOCKET_PATH = "/run/sandbox/log.socket"
MAX_ENTRIES = 500
"""Entries that wait for the host. The oldest are dropped."""

MAX_TEXT_LENGTH = 1000
MAX_UNSENT_ENTRIES = 100
"""Entries of the daemon that wait until the channel's process receives them."""

SEND_RETRY_SECONDS = 1.0
MAX_DATAGRAM_BYTES = 64 * 1024
MAX_DATAGRAMS_PER_TURN = 64
DEBUG, INFO, WARN, ERROR = "debug", "info", "warn", "error"
Entry = dict[str, Any]


def build_entry(level: str, logger: str, message: str, fields: dict[str, str] | None = None) -> Entry:
    """Return an entry of this moment, by the clock that all processes share and that nothing sets."""
    return {
        "at": time.monotonic(),
        "level": level,
        "logger": logger,
        "message": shorten(message),
        "fields": {name: shorten(value) for name, value in (fields or {}).items()},
    }


def shorten(text: str) -> str:
    """Return text that is short enough and can be encoded."""
    return text[:MAX_TEXT_LENGTH].encode("utf-8", "replace").decode()


class LogEntries:
    """Entries with consecutive numbers. `latest_number` is that of the last one."""

    def __init__(self) -> None:
        self.entries: deque[Entry] = deque(maxlen=MAX_ENTRIES)
        self.latest_number = 0
        self.added = asyncio.Event()

    def add(self, entry: Entry) -> None:
        self.latest_number += 1
        self.entries.append({**entry, "number": self.latest_number})
        self.added.set()

    def log(self, level: str, logger: str, message: str, **fields: str) -> None:
        self.add(build_entry(level, logger, message, fields))

    def forget_until(self, number: int) -> None:
        """Remove the entries that the host has."""
        while self.entries and self.entries[0]["number"] <= number:
            self.entries.popleft()

    def list_first(self, maximum: int, max_bytes: int) -> list[Entry]:
        """Return the oldest entries, with their age in seconds instead of a time: the clock here may be wrong."""
        now, entries = time.monotonic(), []
        for entry in list(self.entries)[:maximum]:
            aged = {**entry, "age": round(max(0.0, now - entry["at"]), 3)}
            del aged["at"]
            max_bytes -= len(json.dumps(aged))
            if max_bytes < 0:
                break
            entries.append(aged)
        return entries

    async def wait(self, seconds: float) -> None:
        """Return when there is an entry, or when the time is over."""
        if not self.entries:
            self.added.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self.added.wait()


class LogClient:
    """The daemon's end: sends entries, and stores a few while nobody receives them."""

    def __init__(self, path: str = LOG_SOCKET_PATH) -> None:
        self.path = path
        self.unsent: deque[bytes] = deque(maxlen=MAX_UNSENT_ENTRIES)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.setblocking(False)
        self.retry: asyncio.TimerHandle | None = None

    def log(self, level: str, logger: str, message: str, **fields: str) -> None:
        self.unsent.append(json.dumps(build_entry(level, logger, message, fields)).encode())
        if self.retry is None:
            self.send()

    def send(self) -> None:
        self.retry = None
        try:
            while self.unsent:
                self.socket.sendto(self.unsent[0], self.path)
                self.unsent.popleft()
        except OSError:
            self.retry = asyncio.get_running_loop().call_later(SEND_RETRY_SECONDS, self.send)


def receive_entries(entries: LogEntries, path: str = LOG_SOCKET_PATH) -> socket.socket:
    """Add what the daemon sends from now on to the list. Raises OSError."""
    Path(path).parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    Path(path).unlink(missing_ok=True)
    receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    receiver.setblocking(False)
    mask = os.umask(0o177)
    try:
        receiver.bind(path)
    finally:
        os.umask(mask)
    asyncio.get_running_loop().add_reader(receiver, read_datagrams, receiver, entries)
    return receiver


def read_datagrams(receiver: socket.socket, entries: LogEntries) -> None:
    for _turn in range(MAX_DATAGRAMS_PER_TURN):
        try:
            entry = json.loads(receiver.recv(MAX_DATAGRAM_BYTES))
            entries.add({**entry, "at": float(entry["at"])})
        except BlockingIOError:
            return
        except (ValueError, TypeError, KeyError):  # not from the daemon
            continue
