"""Waiting until the daemon of a booting sandbox answers, through the machine's channel and without an identity."""

import asyncio
import contextlib
import socket
from collections.abc import Callable

from panel.core.messages import message
from panel.schemas.microvm_connectors import DAEMON_PORT
from worker.nodes.base import NodeError
from worker.sandbox_guest.mux import ChannelLost, Mux
from worker.sandbox_guest.mux_stream import StreamReset

CHECK_INTERVAL_SECONDS = 1.0
RETRY_SECONDS = 0.2
HEALTH_REQUEST = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
HEALTHY_ANSWER = b"HTTP/1.1 204 "


class GuestNotReady(NodeError):
    """The daemon did not answer in time."""


def wait_for_daemon(channel: socket.socket, check: Callable[[], None], seconds: float) -> None:
    """Return when the daemon answers, and close the channel. `check` is called meanwhile and may raise.

    Raises NodeError when the channel ends, and GuestNotReady when the time is over.
    """
    with channel:
        asyncio.run(run_probe(channel, check, seconds))


async def run_probe(channel: socket.socket, check: Callable[[], None], seconds: float) -> None:
    reader, writer = await asyncio.open_connection(sock=channel)
    mux = Mux(reader, writer)
    running = asyncio.create_task(mux.run())
    probe = asyncio.create_task(ask_until_healthy(mux))
    try:
        async with asyncio.timeout(seconds):
            while not probe.done():
                check()
                await asyncio.wait((probe,), timeout=CHECK_INTERVAL_SECONDS)
        probe.result()
    except TimeoutError:
        raise GuestNotReady(message("The guest did not become ready in time.")) from None
    except (ChannelLost, OSError) as error:
        raise NodeError(message("The guest ended before it was ready."), str(error)) from error
    finally:
        for task in (probe, running):
            task.cancel()
        await asyncio.gather(probe, running, return_exceptions=True)


async def ask_until_healthy(mux: Mux) -> None:
    """Return when the daemon has answered. It starts later than the channel. Raises `ChannelLost`."""
    while True:
        with contextlib.suppress(StreamReset):
            stream = await mux.open_stream(DAEMON_PORT)
            try:
                stream.write(HEALTH_REQUEST)
                if (await stream.read()).startswith(HEALTHY_ANSWER):
                    return
            finally:
                stream.reset()
        await asyncio.sleep(RETRY_SECONDS)
