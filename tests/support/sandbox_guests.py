"""Guests of a simulated node whose daemon answers its health check, as that of a booted sandbox does."""

import asyncio

from worker.sandbox_guest.mux import Mux

HEALTHY = b"HTTP/1.1 204 No Content\r\n\r\n"


def serve_healthy_guest(channel):
    """Serve the guest's end of a channel until the host closes it. For `SimulatedNode.serve_channel`."""
    asyncio.run(serve(channel))


async def serve(channel):
    await Mux(*await asyncio.open_connection(sock=channel), answer_health).run()


async def answer_health(stream):
    stream.mux.confirm_stream(stream)
    await stream.read()
    stream.write(HEALTHY)
    stream.write_eof()
    await stream.wait_closed()
