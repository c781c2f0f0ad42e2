"""Reading the tree of files below a folder. Links are never followed."""

import contextlib
import errno
import heapq
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .errors import IS_A_LINK, NOT_A_FILE, NOT_A_FOLDER, NOT_FOUND, UNREADABLE, Refused
from .names import decode_path, encode_name

FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
MISSING_ERRORS = (errno.ENOENT, errno.ENAMETOOLONG, errno.ENOTDIR)
TYPES = {stat.S_IFDIR: "folder", stat.S_IFREG: "file", stat.S_IFLNK: "link"}


@contextlib.contextmanager
def translated_errors() -> Iterator[None]:
    """Raise Refused instead of an error of the file system."""
    try:
        yield
    except OSError as error:
        raise Refused(NOT_FOUND if error.errno in MISSING_ERRORS else UNREADABLE) from error


@contextlib.contextmanager
def open_folder(root: Path, names: list[bytes]) -> Iterator[int]:
    """Yield a descriptor of the folder with these names below `root`."""
    with contextlib.ExitStack() as stack, translated_errors():
        folder = os.open(root, FOLDER_FLAGS)
        stack.callback(os.close, folder)
        for name in names:
            mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
            if not stat.S_ISDIR(mode):
                raise Refused(IS_A_LINK if stat.S_ISLNK(mode) else NOT_A_FOLDER)
            folder = os.open(name, FOLDER_FLAGS, dir_fd=folder)
            stack.callback(os.close, folder)
        yield folder


def list_folder(root: Path, path: str, after: str, limit: int) -> dict[str, Any]:
    """Return the first `limit` entries whose names come after `after`, and whether there are more. The memory that it
    takes does not grow with the folder."""
    previous = decode_path(after)[0] if after else b""
    with open_folder(root, decode_path(path)) as folder:
        with translated_errors(), os.scandir(folder) as entries:
            names = (os.fsencode(entry.name) for entry in entries)
            chosen = heapq.nsmallest(limit + 1, (name for name in names if name > previous))
        found = [describe(folder, name) for name in chosen[:limit]]
    return {"entries": found, "has_more": len(chosen) > limit}


def describe(folder: int, name: bytes) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": encode_name(name), "type": "damaged", "size": None, "modified_at": None}
    with contextlib.suppress(OSError):
        facts = os.stat(name, dir_fd=folder, follow_symlinks=False)
        kind = TYPES.get(stat.S_IFMT(facts.st_mode), "other")
        entry |= {"type": kind, "modified_at": int(facts.st_mtime)}
        if kind == "file":
            entry["size"] = facts.st_size
        if kind == "link":
            entry["target"] = encode_name(os.readlink(name, dir_fd=folder))
    return entry


def is_folder(root: Path, names: list[bytes]) -> bool:
    """Return whether this is a folder, which is not reached over a link."""
    if not names:
        raise Refused(NOT_FOUND)
    with open_folder(root, names[:-1]) as folder:
        return stat.S_ISDIR(os.stat(names[-1], dir_fd=folder, follow_symlinks=False).st_mode)


@contextlib.contextmanager
def open_file(root: Path, names: list[bytes]) -> Iterator[int]:
    """Yield a descriptor of a regular file."""
    with open_folder(root, names[:-1]) as folder:
        mode = os.stat(names[-1], dir_fd=folder, follow_symlinks=False).st_mode
        if not stat.S_ISREG(mode):
            raise Refused(IS_A_LINK if stat.S_ISLNK(mode) else NOT_A_FILE)
        file = os.open(names[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        try:
            yield file
        finally:
            os.close(file)
