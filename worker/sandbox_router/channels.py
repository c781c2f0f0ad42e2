"""The channels of the sandboxes in use: one mux for each, opened for the first client and closed after the last."""

import asyncio
import base64
import contextlib
import hashlib
import os
import socket
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Any

import structlog

from panel.schemas.microvm_connectors import DAEMON_PORT
from panel.services.microvms.read import Route
from worker.sandbox_guest.identity import HOST_NAME
from worker.sandbox_guest.identity_stream import IdentityRefused, send_identity
from worker.sandbox_guest.mux import ChannelLost, Mux
from worker.sandbox_guest.mux_stream import REFUSED, MuxStream, StreamReset
from worker.sandbox_router.errors import RequestRefused, build_port_closed

log = structlog.get_logger()

OPEN_THREADS = 16
"""Channels that are opened at once. A node that does not respond keeps a thread for a while."""

SESSION_SECONDS = 60.0
"""Seconds in which a guest that was just started answers on its channel."""

SILENT_CHANNEL_SECONDS = 15.0
"""Seconds until a channel on which no guest answers is opened again. QEMU 7.2 may pass nothing on to a channel that is
opened after one that was closed while the guest was sending."""

IDENTITY_SECONDS = 15.0
OPEN_STREAM_SECONDS = 10.0
DAEMON_START_SECONDS = 30.0
"""Seconds after the begin of a session in which the daemon may still be starting; requests for it wait."""

DAEMON_RETRY_INTERVAL_SECONDS = 0.1
KEEPING_THREADS = 4
MAX_STREAMS_PER_SANDBOX = 128
PUBLIC_SHARE = 0.75
"""The part of a sandbox's streams that requests without its token may use. The others remain for those who have it."""

REFUSED_SHARE = 0.125
"""The part that such requests to the daemon may use, which refuses most of them."""

IDLE_CHANNEL_SECONDS = 60.0
SWEEP_INTERVAL_SECONDS = 5.0
MAX_READ_BYTES = 32 * 1024
"""Bytes of a guest's frames that are handled in one turn: what costs the most CPU is many tiny frames."""

ENTROPY_BYTES = 64

OpenSocket = Callable[[Route], socket.socket]


class FairReader:
    """Reads a channel in small pieces and lets other tasks run between them, however much a guest sends."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self.reader = reader

    async def read(self, n: int) -> bytes:
        await asyncio.sleep(0)
        return await self.reader.read(min(n, MAX_READ_BYTES))


class SandboxChannel:
    """The channel of one sandbox. The numbers of users include requests that wait for a stream."""

    def __init__(self, route: Route) -> None:
        self.route = route
        self.users = self.public_users = self.refused_users = 0
        """Streams in use: all, those of requests without the token, and those of them to the daemon."""
        self.used_at = time.monotonic()
        self.mux: Mux | None = None
        self.running: asyncio.Task[None] | None = None
        self.preparing: asyncio.Task[None] | None = None
        self.identified_session_id: bytes | None = None
        """The session in which the guest got its identity."""
        self.identified_at = 0.0

    @property
    def is_ready(self) -> bool:
        """Whether the guest has its identity and streams can be opened."""
        mux = self.mux
        return (
            mux is not None
            and not mux.has_ended
            and mux.is_established
            and mux.session_id == self.identified_session_id
        )

    def close(self) -> None:
        if self.running:
            self.running.cancel()
        self.mux = None


class ChannelPool:
    def __init__(self, open_socket: OpenSocket, max_streams: int = MAX_STREAMS_PER_SANDBOX) -> None:
        """`open_socket` opens a channel; it is called in a thread."""
        self.open_socket, self.max_streams = open_socket, max_streams
        self.executor = ThreadPoolExecutor(OPEN_THREADS, "sandbox-channels")
        self.keeping_executor = ThreadPoolExecutor(KEEPING_THREADS, "sandbox-permanent-channels")
        self.channels: dict[str, SandboxChannel] = {}
        self.permanent_ids: set[str] = set()
        """Sandboxes whose channels stay open while nobody uses them."""
        self.on_ready: Callable[[SandboxChannel], None] = lambda channel: None
        """Called at the begin of each session, when the guest has its identity."""

    @contextlib.asynccontextmanager
    async def open_stream(self, route: Route, port: int, *, has_token: bool = True) -> AsyncIterator[MuxStream]:
        """Give a stream to a port of the sandbox, which is reset at the end.

        `has_token`: the request has the sandbox's token. Others have a smaller share of the streams.
        Raises `RequestRefused`, ConnectionError, TimeoutError, and what `open_socket` raises.
        """
        channel = self.channels.setdefault(route.sandbox_id, SandboxChannel(route))
        is_public, is_refused = not has_token, not has_token and port == DAEMON_PORT
        if (
            channel.users >= self.max_streams
            or (is_public and channel.public_users >= PUBLIC_SHARE * self.max_streams)
            or (is_refused and channel.refused_users >= REFUSED_SHARE * self.max_streams)
        ):
            raise RequestRefused(429, "Too many requests to the sandbox are open", sandboxId=route.sandbox_id)
        channel.users += 1
        channel.public_users += is_public
        channel.refused_users += is_refused
        try:
            stream = await self.open_when_ready(channel, port)
            try:
                yield stream
            finally:
                stream.reset()
        finally:
            channel.users -= 1
            channel.public_users -= is_public
            channel.refused_users -= is_refused
            channel.used_at = time.monotonic()

    async def open_when_ready(self, channel: SandboxChannel, port: int) -> MuxStream:
        while True:
            while not channel.is_ready:
                await self.prepare(channel)
            assert channel.mux is not None  # and nothing runs between the check and the OPEN frame
            try:
                async with asyncio.timeout(OPEN_STREAM_SECONDS):
                    return await channel.mux.open_stream(port)
            except StreamReset as reset:
                if reset.reason != REFUSED:
                    raise
                is_starting = time.monotonic() < channel.identified_at + DAEMON_START_SECONDS
                if port != DAEMON_PORT or not is_starting:
                    raise build_port_closed(channel.route.sandbox_id, port) from reset
            await asyncio.sleep(DAEMON_RETRY_INTERVAL_SECONDS)

    async def open_permanently(self, route: Route) -> None:
        """Make a channel ready that no client needs yet. Its threads are others than those of clients."""
        channel = self.channels.setdefault(route.sandbox_id, SandboxChannel(route))
        if not channel.is_ready:
            await self.prepare(channel, self.keeping_executor)

    async def prepare(self, channel: SandboxChannel, executor: ThreadPoolExecutor | None = None) -> None:
        """Make the channel ready. All who need it wait for one task, which a client that leaves does not end."""
        if channel.preparing is None:
            channel.preparing = asyncio.create_task(self.run_preparation(channel, executor or self.executor))
            channel.preparing.add_done_callback(lambda task: finish_preparation(channel, task))
        await asyncio.shield(channel.preparing)

    async def run_preparation(self, channel: SandboxChannel, executor: ThreadPoolExecutor) -> None:
        async with asyncio.timeout(SESSION_SECONDS):
            mux = await self.establish_session(channel, executor)
        session_id = mux.session_id
        async with asyncio.timeout(IDENTITY_SECONDS):
            await send_identity(mux, build_identity(channel.route))
        channel.identified_session_id, channel.identified_at = session_id, time.monotonic()
        self.on_ready(channel)

    async def establish_session(self, channel: SandboxChannel, executor: ThreadPoolExecutor) -> Mux:
        while True:
            if channel.mux is None or channel.mux.has_ended:
                channel.mux = await self.connect(channel, executor)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(SILENT_CHANNEL_SECONDS):
                    await channel.mux.wait_until_established()
                    return channel.mux
            log.info("sandbox_channel_silent", sandbox=channel.route.sandbox_id)
            channel.close()

    async def connect(self, channel: SandboxChannel, executor: ThreadPoolExecutor) -> Mux:
        loop = asyncio.get_running_loop()
        sock = await loop.run_in_executor(executor, self.open_socket, channel.route)
        reader, writer = await asyncio.open_connection(sock=sock)
        mux = Mux(FairReader(reader), writer)
        channel.running = asyncio.create_task(run_mux(mux, channel.route.sandbox_id))
        return mux

    async def run_sweeper(self) -> None:
        """Close the channels that nobody uses."""
        while True:
            await asyncio.sleep(SWEEP_INTERVAL_SECONDS)
            self.close_idle(IDLE_CHANNEL_SECONDS)

    def close_idle(self, seconds: float) -> None:
        for sandbox_id, channel in list(self.channels.items()):
            is_needed = channel.users or channel.preparing or sandbox_id in self.permanent_ids
            if not is_needed and channel.used_at + seconds <= time.monotonic():
                del self.channels[sandbox_id]
                channel.close()

    async def close(self) -> None:
        """Close all channels."""
        running = [channel.running for channel in self.channels.values() if channel.running]
        for channel in self.channels.values():
            channel.close()
        await asyncio.gather(*running, return_exceptions=True)


def finish_preparation(channel: SandboxChannel, task: asyncio.Task[None]) -> None:
    channel.preparing = None
    if not task.cancelled() and (error := task.exception()):
        log.info("sandbox_channel_unavailable", sandbox=channel.route.sandbox_id, error=repr(error))


async def run_mux(mux: Mux, sandbox_id: str) -> None:
    """Serve the channel until it ends. What a guest sends must not end more than its channel."""
    log.info("sandbox_channel_opened", sandbox=sandbox_id)
    try:
        await mux.run()
    except Exception:
        log.exception("sandbox_channel_failed", sandbox=sandbox_id)
    finally:
        log.info("sandbox_channel_closed", sandbox=sandbox_id)


def build_identity(route: Route) -> dict[str, Any]:
    """Return the document that makes a machine this sandbox. Sending it again changes nothing but entropy and clock."""
    return {
        "access_token": route.access_token,
        "env": route.envs,
        "host_name": route.name if HOST_NAME.fullmatch(route.name) else route.sandbox_id,
        "machine_id": hashlib.sha256(f"machine-id {route.machine_id}".encode()).hexdigest()[:32],
        "entropy": base64.b64encode(os.urandom(ENTROPY_BYTES)).decode(),
        "time": time.time(),
        **({"network": asdict(route.interface)} if route.interface else {}),
    }


UNAVAILABLE_ERRORS = (ChannelLost, StreamReset, IdentityRefused, TimeoutError, OSError, ValueError)
"""What a guest that does not answer, or answers wrongly, makes `open_stream` raise."""
