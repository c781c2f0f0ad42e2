"""Files and folders: their description, and the operations on them. All functions block and run in threads."""

import contextlib
import errno
import os
import shutil
import stat
from datetime import UTC, datetime

from .connect_protocol import Message
from .errors import RpcError, convert_os_error
from .users import User, get_group_name, get_owner_name, make_folders


def describe_entry(path: str) -> Message:
    """Return the EntryInfo of a path; raises OSError when it does not exist."""
    status = os.lstat(path)
    entry: Message = {
        "name": make_printable(os.path.basename(path) or "/"),
        "type": get_type(status.st_mode),
        "path": make_printable(path),
        "size": str(status.st_size),
        "mode": stat.S_IMODE(status.st_mode),
        "permissions": stat.filemode(status.st_mode),
        "owner": get_owner_name(status.st_uid),
        "group": get_group_name(status.st_gid),
        "modifiedTime": format_time(status.st_mtime_ns),
    }
    if stat.S_ISLNK(status.st_mode):
        entry |= {"type": get_target_type(path), "symlinkTarget": make_printable(os.path.realpath(path))}
        entry["isSymlink"] = True
    return entry


def get_type(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "FILE_TYPE_DIRECTORY"
    return "FILE_TYPE_FILE" if stat.S_ISREG(mode) else "FILE_TYPE_UNSPECIFIED"


def get_target_type(path: str) -> str:
    """Return the type of what a symbolic link points to; a broken one has the type of a link."""
    try:
        return get_type(os.stat(path).st_mode)
    except OSError:
        return "FILE_TYPE_SYMLINK"


def make_printable(path: str) -> str:
    """Replace bytes of a file name that are not UTF-8, which JSON cannot carry."""
    return os.fsencode(path).decode("utf-8", "replace")


def format_time(nanoseconds: int) -> str:
    """Return the time as RFC 3339."""
    seconds, fraction = divmod(nanoseconds, 10**9)
    try:
        text = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    except (ValueError, OverflowError, OSError):  # file systems can store years that Python cannot
        return "1970-01-01T00:00:00Z"
    return f"{text.rjust(19, '0')}.{fraction:09}Z"


def stat_path(path: str) -> Message:
    try:
        return describe_entry(path)
    except OSError as error:
        raise convert_os_error(error, path) from error


def list_folder(path: str, depth: int) -> list[Message]:
    """Return the entries of a folder down to a depth, each folder before its content, sorted by name."""
    try:
        if not stat.S_ISDIR(os.stat(path).st_mode):
            raise RpcError("invalid_argument", f"path '{path}' is not a directory")
        names = sorted(os.listdir(path))
    except OSError as error:
        raise convert_os_error(error, path) from error
    entries: list[Message] = []
    pending = [(path, name, 1) for name in reversed(names)]
    while pending:
        folder, name, level = pending.pop()
        child = os.path.join(folder, name)
        try:
            entries.append(describe_entry(child))
            if level < depth and stat.S_ISDIR(os.lstat(child).st_mode):
                pending += [(child, name, level + 1) for name in sorted(os.listdir(child), reverse=True)]
        except OSError:  # it was removed meanwhile
            continue
    return entries


def make_folder(path: str, user: User) -> Message:
    """Create a folder with its parents and return its entry."""
    try:
        if os.path.isdir(path):
            raise RpcError("already_exists", f"directory '{path}' already exists")
        if os.path.lexists(path):
            raise RpcError("invalid_argument", f"path '{path}' already exists and is not a directory")
        make_folders(path, user)
        return describe_entry(path)
    except OSError as error:
        raise convert_os_error(error, path) from error


def move_path(source: str, destination: str, user: User) -> Message:
    """Rename a file or folder, also to another file system, and return its new entry."""
    try:
        os.lstat(source)
    except OSError as error:
        raise convert_os_error(error, source) from error
    try:
        make_folders(os.path.dirname(destination), user)
        try:
            os.rename(source, destination)
        except OSError as error:
            if error.errno != errno.EXDEV or os.path.isdir(destination):
                raise
            copy_to_other_file_system(source, destination)
        return describe_entry(destination)
    except OSError as error:
        raise convert_os_error(error, destination) from error


def copy_to_other_file_system(source: str, destination: str) -> None:
    """Move by copying. Unlike shutil.move alone this keeps the owners."""
    owners = {"": os.lstat(source)}
    for folder, folders, files in os.walk(source):
        for name in [*folders, *files]:
            path = os.path.join(folder, name)
            owners[path[len(source) :]] = os.lstat(path)
    shutil.move(source, destination)
    for suffix, status in owners.items():
        with contextlib.suppress(OSError):
            os.chown(destination + suffix, status.st_uid, status.st_gid, follow_symlinks=False)


def remove_path(path: str) -> None:
    """Remove a file or a folder with its content. An absent one is no error."""
    try:
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.unlink(path)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise convert_os_error(error, path) from error
