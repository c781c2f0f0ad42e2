"""The kernel's warnings and errors, as entries of the sandbox's log."""

import asyncio
import contextlib
import os
import re
from pathlib import Path

from .log_entries import ERROR, WARN, LogEntries, build_entry

KERNEL_LOG_PATH = "/dev/kmsg"
READ_MARK_PATH = "/run/sandbox/kernel-log-read"
"""The file that exists once the messages of the boot were read: a process that is started again skips them."""

MAX_RECORD_BYTES = 8192
MAX_RECORDS_PER_TURN = 64
RECORD = re.compile(rb"(\d+),\d+,(\d+),[^;]*;([^\n]*)")
ESCAPED_BYTE = re.compile(rb"\\x([0-9a-f]{2})")
"""How the kernel writes bytes that are no printable ASCII character."""
WARNING_PRIORITY, ERROR_PRIORITY = 4, 3
PRIORITY_MASK = 7


def follow_kernel_log(entries: LogEntries, path: str = KERNEL_LOG_PATH, mark_path: str = READ_MARK_PATH) -> None:
    """Add the kernel's messages to the list from now on, with those of the boot. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    mark = Path(mark_path)
    if mark.exists():
        os.lseek(fd, 0, os.SEEK_END)
    else:
        mark.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        mark.touch(0o600)
    asyncio.get_running_loop().add_reader(fd, read_records, fd, entries)


def read_records(fd: int, entries: LogEntries) -> None:
    for _turn in range(MAX_RECORDS_PER_TURN):
        try:
            record = os.read(fd, MAX_RECORD_BYTES)
        except BlockingIOError:
            return
        except BrokenPipeError:  # records were overwritten before they were read
            continue
        except OSError:
            record = b""
        if not record:
            asyncio.get_running_loop().remove_reader(fd)
            return
        with contextlib.suppress(ValueError):
            add_record(record, entries)


def add_record(record: bytes, entries: LogEntries) -> None:
    """Add a record of /dev/kmsg if it is a warning or worse."""
    match = RECORD.match(record)
    if match is None or (priority := int(match[1]) & PRIORITY_MASK) > WARNING_PRIORITY:
        return
    level = ERROR if priority <= ERROR_PRIORITY else WARN
    text = ESCAPED_BYTE.sub(lambda escaped: bytes.fromhex(escaped[1].decode()), match[3])
    entry = build_entry(level, "kernel", " ".join(text.decode("utf-8", "replace").split()))
    entries.add({**entry, "at": int(match[2]) / 1_000_000})
