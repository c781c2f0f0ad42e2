"""Both ends of a mux in one process, joined by a socketpair."""

import asyncio
import contextlib
import socket
import time

from worker.sandbox_guest.frames import HELLO, MARKER, PROTOCOL_VERSION, build_frame
from worker.sandbox_guest.mux import Mux

TEST_SECONDS = 30


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, TEST_SECONDS))


def build_hello(session_id=b"0123456789abcdef"):
    return MARKER + build_frame(HELLO, PROTOCOL_VERSION, session_id)


async def wait_until(condition, seconds=20):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


async def open_socketpair():
    """Return (reader, writer) of both ends."""
    return [await asyncio.open_connection(sock=end) for end in socket.socketpair()]


@contextlib.asynccontextmanager
async def run_muxes(*muxes):
    tasks = [asyncio.create_task(mux.run()) for mux in muxes]
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@contextlib.asynccontextmanager
async def connect_muxes(accept):
    """Give the established ends of the host and of a guest that serves its streams with `accept`."""
    host_channel, guest_channel = await open_socketpair()
    host, guest = Mux(*host_channel), Mux(*guest_channel, accept)
    async with run_muxes(host, guest):
        await host.wait_until_established()
        yield host, guest


async def echo(stream):
    stream.mux.confirm_stream(stream)
    while data := await stream.read():
        stream.write(data)
        await stream.drain()
    stream.write_eof()
    await stream.wait_closed()


async def read_all(stream):
    pieces = []
    while data := await stream.read():
        pieces.append(data)
    return b"".join(pieces)


async def exchange(stream, data):
    """Send the data and the end; return everything that comes back."""
    reading = asyncio.create_task(read_all(stream))
    stream.write(data)
    stream.write_eof()
    return await reading
