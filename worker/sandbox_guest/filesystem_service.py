"""The service `filesystem.Filesystem`."""

import asyncio

from . import filesystem
from .calls import Call
from .connect_protocol import (
    Message,
    MessageStream,
    encode_message,
    get_flag,
    get_number,
    get_text,
    get_timeout_seconds,
)
from .errors import RpcError
from .watchers import Watcher, WatcherTable

START_EVENT = b'{"start":{}}'
KEEPALIVE_EVENT = b'{"keepalive":{}}'


class FilesystemService:
    """Executes the calls about files and folders."""

    def __init__(self, watchers: WatcherTable):
        self.watchers = watchers

    async def stat(self, call: Call) -> Message:
        return {"entry": await asyncio.to_thread(filesystem.stat_path, call.get_path("path"))}

    async def list_dir(self, call: Call) -> Message:
        depth = get_number(call.message, "depth") or 1
        return {"entries": await asyncio.to_thread(filesystem.list_folder, call.get_path("path"), depth)}

    async def make_dir(self, call: Call) -> Message:
        path = get_named_path(call, "path")
        return {"entry": await asyncio.to_thread(filesystem.make_folder, path, call.user)}

    async def move(self, call: Call) -> Message:
        source, destination = get_named_path(call, "source"), get_named_path(call, "destination")
        return {"entry": await asyncio.to_thread(filesystem.move_path, source, destination, call.user)}

    async def remove(self, call: Call) -> Message:
        await asyncio.to_thread(filesystem.remove_path, get_named_path(call, "path"))
        return {}

    async def watch_dir(self, call: Call, stream: MessageStream) -> None:
        """Send the changes of a folder until the client disconnects or the time is over."""
        watcher = await self.open_watcher(call)
        try:
            async with asyncio.timeout(get_timeout_seconds(call.request)) as limit:
                await stream.send(START_EVENT)
                while True:
                    try:
                        async with asyncio.timeout(stream.keepalive):
                            event = encode_message({"filesystem": await watcher.get_event()})
                    except TimeoutError:
                        if limit.expired():
                            raise
                        event = KEEPALIVE_EVENT
                    await stream.send(event)
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise RpcError("deadline_exceeded", "the time limit of the call is over") from error
        finally:
            self.watchers.close(watcher)

    async def create_watcher(self, call: Call) -> Message:
        return {"watcherId": self.watchers.add(await self.open_watcher(call))}

    async def get_watcher_events(self, call: Call) -> Message:
        return {"events": self.watchers.get(get_text(call.message, "watcherId")).fetch_events()}

    async def remove_watcher(self, call: Call) -> Message:
        self.watchers.remove(get_text(call.message, "watcherId"))
        return {}

    async def open_watcher(self, call: Call) -> Watcher:
        return await self.watchers.open(
            call.get_path("path"),
            is_recursive=get_flag(call.message, "recursive"),
            has_entries=get_flag(call.message, "includeEntry"),
        )


def get_named_path(call: Call, name: str) -> str:
    """Return an absolute path that must be given: the default folder is never moved or removed by omission."""
    if not get_text(call.message, name):
        raise RpcError("invalid_argument", f"{name} is empty")
    return call.get_path(name)
