"""Watching folders for changes."""

import asyncio
import contextlib
import os
import secrets
from collections import deque

from . import inotify
from .connect_protocol import Message
from .errors import RpcError, convert_os_error
from .filesystem import describe_entry, make_printable

MAX_BUFFERED_EVENTS = 10_000
"""How many events are kept for a client that does not fetch them. Further ones are dropped."""
MAX_WATCHERS = 100
"""The kernel allows 128 inotify instances for each user."""
WATCHER_RETENTION_SECONDS = 3600.0
"""How long a watcher is kept whose events nobody fetches."""
EVENT_TYPES = {
    inotify.IN_CREATE: "EVENT_TYPE_CREATE",
    inotify.IN_MOVED_TO: "EVENT_TYPE_CREATE",
    inotify.IN_MODIFY: "EVENT_TYPE_WRITE",
    inotify.IN_DELETE: "EVENT_TYPE_REMOVE",
    inotify.IN_DELETE_SELF: "EVENT_TYPE_REMOVE",
    inotify.IN_MOVED_FROM: "EVENT_TYPE_RENAME",
    inotify.IN_MOVE_SELF: "EVENT_TYPE_RENAME",
    inotify.IN_ATTRIB: "EVENT_TYPE_CHMOD",
}
TYPES_WITH_ENTRY = {"EVENT_TYPE_CREATE", "EVENT_TYPE_WRITE", "EVENT_TYPE_CHMOD"}


class Watcher:
    """Collects the changes below one folder."""

    def __init__(self, path: str, *, is_recursive: bool, has_entries: bool):
        self.path = path
        self.is_recursive = is_recursive
        self.has_entries = has_entries
        self.events: deque[Message] = deque()
        self.ready = asyncio.Event()
        self.loop = asyncio.get_running_loop()
        self.fetched_at = self.loop.time()
        self.folders: dict[int, str] = {}
        self.is_closed = False
        try:
            if not os.path.isdir(path):
                os.stat(path)
                raise RpcError("invalid_argument", f"path '{path}' is not a directory")
            self.inotify = inotify.Inotify()
        except OSError as error:
            raise convert_os_error(error, path) from error

    async def start(self) -> None:
        """Watch the folder, and with `is_recursive` all folders below it."""
        walk = asyncio.ensure_future(asyncio.to_thread(self.add_folder, self.path, is_new=False))
        try:
            await asyncio.shield(walk)
        except asyncio.CancelledError:
            self.is_closed = True
            walk.add_done_callback(self.close_after_walk)  # the thread still uses the descriptor
            raise
        except (OSError, RecursionError) as error:
            self.is_closed = True
            self.inotify.close()
            if isinstance(error, RecursionError):
                raise RpcError("invalid_argument", f"path '{self.path}' has too many levels of folders") from error
            raise convert_os_error(error, self.path) from error
        self.loop.add_reader(self.inotify.descriptor, self.read)

    def close_after_walk(self, walk: "asyncio.Future[None]") -> None:
        self.inotify.close()
        if not walk.cancelled():
            walk.exception()  # nobody waits for it

    def add_folder(self, path: str, *, is_new: bool) -> None:
        """Watch a folder. What is already in a new one was created before the watch and is reported here."""
        self.folders[self.inotify.add_watch(path)] = path
        if not self.is_recursive:
            return
        try:
            names = sorted(os.listdir(path))
        except OSError:
            return
        for name in names:
            child = os.path.join(path, name)
            if is_new:
                self.add_event("EVENT_TYPE_CREATE", child)
            if os.path.isdir(child) and not os.path.islink(child):
                with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                    self.add_folder(child, is_new=is_new)

    def read(self) -> None:
        """Turn the kernel's notifications into events."""
        moved_folders: dict[int, str] = {}
        for watch, mask, cookie, name in self.inotify.read():
            folder = self.folders.get(watch)
            if folder is None:
                continue
            if mask & inotify.IN_IGNORED:
                del self.folders[watch]
                continue
            if not name and folder != self.path:  # the folder above reports it as well
                continue
            path = os.path.join(folder, name) if name else folder
            for bit, event_type in EVENT_TYPES.items():
                if mask & bit:
                    self.add_event(event_type, path)
            if self.is_recursive and name and mask & inotify.IN_ISDIR:
                if mask & inotify.IN_MOVED_FROM:
                    moved_folders[cookie] = path
                elif mask & inotify.IN_MOVED_TO and cookie in moved_folders:
                    self.rename_folders(moved_folders.pop(cookie), path)
                elif mask & (inotify.IN_CREATE | inotify.IN_MOVED_TO):
                    with contextlib.suppress(OSError, RecursionError):
                        self.add_folder(path, is_new=bool(mask & inotify.IN_CREATE))
        for path in moved_folders.values():
            self.forget_folders(path)

    def find_folders(self, path: str) -> list[tuple[int, str]]:
        """Return (watch, path relative to this one) of a folder and those below it."""
        return [
            (watch, folder[len(path) :])
            for watch, folder in self.folders.items()
            if folder == path or folder.startswith(f"{path}/")
        ]

    def rename_folders(self, source: str, destination: str) -> None:
        """Keep the watches of a renamed folder, because events of them may be waiting."""
        for watch, suffix in self.find_folders(source):
            self.folders[watch] = destination + suffix

    def forget_folders(self, path: str) -> None:
        """End the watches of a folder that was moved away."""
        for watch, _suffix in self.find_folders(path):
            self.inotify.remove_watch(watch)
            del self.folders[watch]

    def add_event(self, event_type: str, path: str) -> None:
        if len(self.events) >= MAX_BUFFERED_EVENTS:
            return
        name = os.path.relpath(path, self.path)
        event: Message = {"name": make_printable(name), "type": event_type}
        if self.has_entries and event_type in TYPES_WITH_ENTRY:
            with contextlib.suppress(OSError):
                event["entry"] = describe_entry(path)
        self.events.append(event)
        self.ready.set()

    async def get_event(self) -> Message:
        """Wait for the next event and return it."""
        while not self.events:
            self.ready.clear()
            await self.ready.wait()
        return self.events.popleft()

    def fetch_events(self) -> list[Message]:
        """Return the events since the last call."""
        self.fetched_at = self.loop.time()
        events = list(self.events)
        self.events.clear()
        return events

    def close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            self.loop.remove_reader(self.inotify.descriptor)
            self.inotify.close()


class WatcherTable:
    """The watchers whose events clients fetch, and the number of all."""

    def __init__(self) -> None:
        self.watchers: dict[str, Watcher] = {}
        self.count = 0

    async def open(self, path: str, *, is_recursive: bool, has_entries: bool) -> Watcher:
        """Return a started watcher."""
        self.close_expired()
        if self.count >= MAX_WATCHERS:
            raise RpcError("resource_exhausted", f"there are already {MAX_WATCHERS} watchers")
        watcher = Watcher(path, is_recursive=is_recursive, has_entries=has_entries)
        self.count += 1
        try:
            await watcher.start()
        except BaseException:
            self.count -= 1
            raise
        return watcher

    def close(self, watcher: Watcher) -> None:
        watcher.close()
        self.count -= 1

    def add(self, watcher: Watcher) -> str:
        """Keep a watcher and return its id."""
        watcher_id = secrets.token_hex(12)
        self.watchers[watcher_id] = watcher
        return watcher_id

    def get(self, watcher_id: str) -> Watcher:
        try:
            return self.watchers[watcher_id]
        except KeyError as error:
            raise RpcError("not_found", f"watcher '{watcher_id}' not found") from error

    def remove(self, watcher_id: str) -> None:
        self.close(self.get(watcher_id))
        del self.watchers[watcher_id]

    def close_expired(self) -> None:
        """Close the watchers whose clients seem to be gone."""
        for watcher_id, watcher in list(self.watchers.items()):
            if watcher.loop.time() - watcher.fetched_at > WATCHER_RETENTION_SECONDS:
                self.remove(watcher_id)
