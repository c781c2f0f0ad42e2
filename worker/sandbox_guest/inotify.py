"""The kernel's notifications about changed files (inotify), which Python has no module for."""

import ctypes
import os
import struct
from collections.abc import Iterator

IN_MODIFY = 0x00000002
IN_ATTRIB = 0x00000004
IN_MOVED_FROM = 0x00000040
IN_MOVED_TO = 0x00000080
IN_CREATE = 0x00000100
IN_DELETE = 0x00000200
IN_DELETE_SELF = 0x00000400
IN_MOVE_SELF = 0x00000800
IN_IGNORED = 0x00008000
IN_ONLYDIR = 0x01000000
IN_EXCL_UNLINK = 0x04000000
IN_ISDIR = 0x40000000
WATCHED_EVENTS = (
    IN_MODIFY | IN_ATTRIB | IN_MOVED_FROM | IN_MOVED_TO | IN_CREATE | IN_DELETE | IN_DELETE_SELF | IN_MOVE_SELF
)
EVENT_HEAD = struct.Struct("iIII")
READ_BYTES = 64 * 1024

libc = ctypes.CDLL(None, use_errno=True)


class Inotify:
    """One inotify instance, with non-blocking reads."""

    def __init__(self) -> None:
        self.descriptor = check_result(libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))

    def add_watch(self, path: str) -> int:
        """Watch a folder and return the number of the watch."""
        mask = WATCHED_EVENTS | IN_ONLYDIR | IN_EXCL_UNLINK
        return check_result(libc.inotify_add_watch(self.descriptor, os.fsencode(path), ctypes.c_uint32(mask)))

    def remove_watch(self, watch: int) -> None:
        """End a watch. One that the kernel has already ended is no error."""
        libc.inotify_rm_watch(self.descriptor, watch)

    def read(self) -> Iterator[tuple[int, int, int, str]]:
        """Yield (watch, mask, cookie, name) of each event that is there. Both events of a rename have one cookie."""
        try:
            data = os.read(self.descriptor, READ_BYTES)
        except BlockingIOError:
            return
        offset = 0
        while offset < len(data):
            watch, mask, cookie, length = EVENT_HEAD.unpack_from(data, offset)
            offset += EVENT_HEAD.size
            yield watch, mask, cookie, os.fsdecode(data[offset : offset + length].rstrip(b"\0"))
            offset += length

    def close(self) -> None:
        os.close(self.descriptor)


def check_result(result: int) -> int:
    """Return the result of a C function; raises OSError when it failed."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
