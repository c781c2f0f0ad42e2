"""Downloads and uploads of files: GET and POST /files."""

import asyncio
import os
import re
import stat
from collections import deque
from collections.abc import Awaitable, Callable
from typing import BinaryIO
from urllib.parse import quote

from .connect_protocol import Message, get_text
from .errors import HttpError, RpcError, convert_os_error
from .filesystem import make_printable
from .http_body import PIECE_BYTES
from .http_messages import Request, Response
from .identity import Identity
from .multipart import MultipartReader
from .users import User, get_user, make_folders
from .vectors import MAX_BUFFERS, remove_written

RANGE = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})")
REFUSED_IDENTITY = re.compile(r"(?:^|,)\s*identity\s*;\s*q=0(?:\.0*)?\s*(?:,|$)", re.IGNORECASE)
FULL_DISK_CODE = "resource_exhausted"
WRITE_BYTES = 1024 * 1024
"""How much of an upload is collected before a thread writes it. Small pieces would cost more than the writing."""

ReadPiece = Callable[[], Awaitable[bytes]]


async def download(request: Request, response: Response, identity: Identity) -> None:
    """Send a file, or the requested range of it."""
    path = get_user_and_path(request, identity)[1]
    if REFUSED_IDENTITY.search(request.headers.get("accept-encoding", "")):
        raise HttpError(406, "files are sent without encoding only")
    with await asyncio.to_thread(open_for_reading, path) as file:
        size = os.fstat(file.fileno()).st_size
        name = os.path.basename(path)
        headers = {
            "Content-Type": "application/octet-stream",
            "Content-Disposition": f"inline; filename={format_file_name(name)}",
            "Vary": "Accept-Encoding",
        }
        if size == 0:
            await send_unsized_file(response, file, headers)
            return
        headers["Accept-Ranges"] = "bytes"
        offset, count = parse_range(request.headers.get("range", ""), size)
        if count != size:
            headers["Content-Range"] = f"bytes {offset}-{offset + count - 1}/{size}"
        response.start(200 if count == size else 206, headers, length=count)
        await response.send_file(file, offset, count)


async def send_unsized_file(response: Response, file: BinaryIO, headers: dict[str, str]) -> None:
    """Send a file whose size is 0. Files of /proc and /sys have content nevertheless."""
    piece = await asyncio.to_thread(file.read, PIECE_BYTES)
    if not piece:
        await response.send(200, b"", headers)
        return
    response.start(200, headers)
    while piece:
        await response.write(piece)
        piece = await asyncio.to_thread(file.read, PIECE_BYTES)
    await response.finish()


def get_user_and_path(request: Request, identity: Identity) -> tuple[User, str]:
    """Return the acting user and the absolute path of the query."""
    user = get_user(request.query.get("username") or identity.default_user)
    path = get_text({"path": request.query.get("path", "")}, "path")
    return user, user.resolve_path(path, empty=identity.default_workdir)


def open_for_reading(path: str) -> BinaryIO:
    try:
        # Opening a named pipe would wait for a writer otherwise.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise convert_os_error(error, path) from error
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        kind = "a directory" if stat.S_ISDIR(mode) else "not a regular file"
        raise HttpError(400, f"path '{path}' is {kind}")
    return os.fdopen(descriptor, "rb", buffering=0)


def format_file_name(name: str) -> str:
    """Return a file name for the Content-Disposition header."""
    if re.fullmatch(r"[A-Za-z0-9._-]+", name):
        return name
    return f"\"download\"; filename*=utf-8''{quote(os.fsencode(name), safe='')}"


def parse_range(text: str, size: int) -> tuple[int, int]:
    """Return (offset, count) of the requested range; the whole file when the header is absent or not supported."""
    match = RANGE.fullmatch(text.strip())
    if not match or not (match[1] or match[2]):
        return 0, size
    if match[1]:
        first, last = int(match[1]), min(int(match[2] or size - 1), size - 1)
    else:
        first, last = max(size - int(match[2]), 0), size - 1
    if first >= size or first > last:
        raise HttpError(416, "the range is not within the file", {"Content-Range": f"bytes */{size}"})
    return first, last - first + 1


async def upload(request: Request, response: Response, identity: Identity) -> None:
    """Store the files of a request and answer with their paths."""
    if request.content_type == "multipart/form-data":
        entries = await upload_form(request, identity)
    elif request.content_type == "application/octet-stream":
        if not request.query.get("path"):
            raise HttpError(400, "path is required")
        user, path = get_user_and_path(request, identity)
        entries = [await store_file(request.body.read, path, user)]
    else:
        raise HttpError(400, f"unknown content type '{request.content_type}'")
    await response.send_json(200, entries)


async def upload_form(request: Request, identity: Identity) -> list[Message]:
    """Store the files of a form: at the path of the query, or each at its own file name."""
    user, query_path = get_user_and_path(request, identity)
    form = MultipartReader(request.body, request.headers["content-type"])
    entries: list[Message] = []
    paths: set[str] = set()
    while (section := await form.find_section()) is not None:
        field_name, file_name = section
        if field_name != "file":
            continue
        if request.query.get("path"):
            path = query_path
        elif file_name:
            path = user.resolve_path(get_text({"filename": file_name}, "filename"))
        else:
            raise HttpError(400, "path or a file name is required")
        if path in paths:
            raise HttpError(400, f"path '{path}' is the target of several files")
        paths.add(path)
        entries.append(await store_file(form.read, path, user))
    if not entries:
        raise HttpError(400, "the form has no files")
    return entries


async def store_file(read_piece: ReadPiece, path: str, user: User) -> Message:
    """Write the pieces to a file that belongs to the user and return its entry."""
    try:
        with await asyncio.to_thread(open_for_writing, path, user) as file:
            pieces: list[bytes] = []
            size = 0
            while piece := await read_piece():
                pieces.append(piece)
                size += len(piece)
                if size >= WRITE_BYTES or len(pieces) == MAX_BUFFERS:
                    await asyncio.to_thread(write_pieces, file, pieces)
                    pieces, size = [], 0
            await asyncio.to_thread(write_pieces, file, pieces)
    except OSError as error:
        if isinstance(error, ConnectionError):
            raise
        failure = convert_os_error(error, path)
    except RpcError as error:
        failure = error
    else:
        return {"path": make_printable(path), "name": make_printable(os.path.basename(path)), "type": "file"}
    if failure.code == FULL_DISK_CODE:
        raise HttpError(507, f"there is not enough space on the disk for '{path}'") from failure
    raise failure


def open_for_writing(path: str, user: User) -> BinaryIO:
    """Create or empty a file; missing folders are created, and all that is new belongs to the user."""
    if os.path.isdir(path):
        raise HttpError(400, f"path '{path}' is a directory")
    make_folders(os.path.dirname(path), user)
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NONBLOCK
    descriptor = os.open(path, flags, 0o644)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise HttpError(400, f"path '{path}' is not a regular file")
        if os.geteuid() == 0:
            os.fchown(descriptor, user.uid, user.gid)
    except BaseException:
        os.close(descriptor)
        raise
    return os.fdopen(descriptor, "wb", buffering=0)


def write_pieces(file: BinaryIO, pieces: list[bytes]) -> None:
    """Write all the pieces; a single call of the operating system may write less."""
    views = deque(memoryview(piece) for piece in pieces)
    while views:
        remove_written(views, os.writev(file.fileno(), views))
