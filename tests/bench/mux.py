"""16 MiB through a stream of the sandbox channel, against the same bytes through a bare Unix socket pair.

Target: each direction at least half as fast as asyncio's streams on a socket pair. The speed of blocking sockets is
printed for comparison. All ends run in this process.
"""

import asyncio
import os
import socket
import statistics
import threading
import time

from tests.support.mux_ends import connect_muxes, open_socketpair

TRANSFER_BYTES, ROUNDS = 16 * 1024 * 1024, 9
QUICK_SIZES = {"TRANSFER_BYTES": 1024 * 1024, "ROUNDS": 2}
PIECE = os.urandom(64 * 1024)
MEBIBYTE = 1024 * 1024


def bench(report):
    blocking_speed = statistics.median(measure_blocking() for _ in range(ROUNDS))
    print(f"16 MiB through blocking sockets: median {blocking_speed / MEBIBYTE:.0f} MiB/s", flush=True)
    for direction in ("written by the host", "read by the host"):
        ratios, speeds = zip(*(asyncio.run(measure_ratio(direction)) for _ in range(ROUNDS)), strict=True)
        print(f"16 MiB {direction}: median {statistics.median(speeds) / MEBIBYTE:.0f} MiB/s", flush=True)
        report(f"16 MiB {direction}, against a socket pair", statistics.median(ratios), minimum=0.5)


async def measure_ratio(direction):
    """Return the ratio of both speeds, and the speed of the stream in bytes per second."""
    (_, writer), (reader, other) = await open_socketpair()
    raw_speed = await measure(writer, reader)
    writer.close()
    other.close()
    accepted = asyncio.Queue()

    async def accept(stream):
        stream.mux.confirm_stream(stream)
        accepted.put_nowait(stream)
        await stream.wait_closed()

    async with connect_muxes(accept) as (host, _):
        ends = await host.open_stream(80), await accepted.get()
        speed = await measure(*(ends if direction == "written by the host" else reversed(ends)))
    return speed / raw_speed, speed


def measure_blocking():
    writer, reader = socket.socketpair()
    with writer, reader:
        started_at, received = time.perf_counter(), 0
        sender = threading.Thread(target=lambda: [writer.sendall(PIECE) for _ in range(TRANSFER_BYTES // len(PIECE))])
        sender.start()
        while received < TRANSFER_BYTES:
            received += len(reader.recv(256 * 1024))
        sender.join()
        return TRANSFER_BYTES / (time.perf_counter() - started_at)


async def measure(writer, reader):
    """Return the speed of a transfer in bytes per second."""
    started_at = time.perf_counter()
    sender, received = asyncio.create_task(send(writer)), 0
    while received < TRANSFER_BYTES:
        received += len(await reader.read(256 * 1024))
    await sender
    return TRANSFER_BYTES / (time.perf_counter() - started_at)


async def send(writer):
    for _ in range(TRANSFER_BYTES // len(PIECE)):
        writer.write(PIECE)
        await writer.drain()
