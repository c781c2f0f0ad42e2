"""The guest's end of the channel: connects the host's streams to servers of this process and ports of this guest.

The device is a virtio-serial port. It has no connections: while no process on the host has it open, reading returns
nothing at once and polling reports a hang-up.
"""

import asyncio
import contextlib
import errno
import itertools
import os
import select
import socket
import sys
from collections import deque
from pathlib import Path

from .http_server import HttpServer
from .identity_stream import receive_identity
from .kernel_log import follow_kernel_log
from .log_entries import receive_entries
from .mux import READ_BYTES, ChannelReader, ChannelWriter, Mux
from .mux_stream import CLOSED, IDENTITY_PORT, PAYLOAD_BYTES, REFUSED, MuxStream
from .reports import Reporter
from .vectors import MAX_BUFFERS, remove_written

HOST_POLL_SECONDS = 1.0
"""Seconds between two checks whether the host is back, if no event has reported it."""

NEXT_HOST_SECONDS = 0.05
"""Seconds between two hosts: never spin, whatever the device reports."""

DEVICE_RETRY_SECONDS = 1.0
"""Seconds after which a device is opened again that does not exist or that another process has open."""

PORTS_PATH = Path("/sys/class/virtio-ports")
"""Where the kernel shows the ports and their names."""

PORT_READ_BYTES = 4096
"""Bytes that one read of a virtio-serial port gives at most. Its driver has no vectored calls of its own, so the kernel
makes one of these reads for each buffer of a `readv`, until one is not filled."""

PORT_WRITE_BYTES = 32 * 1024
"""Bytes that one write of such a port takes at most, and so the buffers of a `writev`."""

GATHER_SECONDS = 0.001
"""Seconds in which more arrives after as much as that. The host sends 4 KiB at a time, and each piece that is passed on
costs the same, whatever its size."""

CONNECT_TIMEOUT_SECONDS = 10
RELAY_BYTES = PAYLOAD_BYTES
"""Bytes that are read from a program at once: those of one frame, so that no piece is cut."""


Servers = dict[int, HttpServer]
"""Port → the server in this process that listens on it. Streams to it pass no socket."""


class HostGone(ConnectionError):
    """No process on the host has the device open."""


class DeviceChannel:
    """The reader and the writer of a mux, over a descriptor that is both. Closing it does not close the descriptor."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.buffer = memoryview(bytearray(READ_BYTES))
        positions = range(0, READ_BYTES, PORT_READ_BYTES)
        self.pieces = [self.buffer[position : position + PORT_READ_BYTES] for position in positions]
        self.unsent: deque[memoryview] = deque()
        self.is_closed = self.is_more_coming = self.has_waited = False
        os.set_blocking(fd, False)

    async def read(self, n: int) -> bytes:
        """Return what is there, up to `READ_BYTES`, and none when the host is gone."""
        # Other tasks run, also while there is always something to read.
        if self.is_more_coming or not self.has_waited:
            await asyncio.sleep(GATHER_SECONDS if self.is_more_coming else 0)
        self.has_waited = False
        while not self.is_closed:
            try:
                return self.read_available()
            except BlockingIOError:
                await self.wait_ready(is_write=False)
                self.has_waited = True
            except OSError as error:
                if error.errno != errno.EIO:  # a pseudo-terminal that nobody has open
                    raise
                return b""
        return b""

    def read_available(self) -> bytes:
        size = os.readv(self.fd, self.pieces)
        self.is_more_coming = PORT_READ_BYTES <= size < READ_BYTES
        return bytes(self.buffer[:size])

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        self.unsent += (view[start : start + PORT_WRITE_BYTES] for start in range(0, len(view), PORT_WRITE_BYTES))

    async def drain(self) -> None:
        """Return when everything was written. Raises `HostGone` when nobody would read it."""
        while self.unsent:
            try:
                written = os.writev(self.fd, list(itertools.islice(self.unsent, MAX_BUFFERS)))
            except BlockingIOError:
                if self.is_closed or not self.has_host():
                    raise HostGone("The host has closed the channel.") from None
                await self.wait_ready(is_write=True)
            else:
                remove_written(self.unsent, written)

    def close(self) -> None:
        self.is_closed = True

    async def wait_ready(self, *, is_write: bool) -> None:
        loop = asyncio.get_running_loop()
        ready = asyncio.Event()
        add, remove = (loop.add_writer, loop.remove_writer) if is_write else (loop.add_reader, loop.remove_reader)
        add(self.fd, ready.set)
        try:
            await ready.wait()
        finally:
            remove(self.fd)

    def has_host(self) -> bool:
        poll = select.poll()
        poll.register(self.fd, 0)  # a hang-up is always reported
        return not poll.poll(0)

    async def wait_for_host(self) -> None:
        """Return when the host has the device open. The hang-up is reported all the time until then, so only changes
        are waited for."""
        loop, changed = asyncio.get_running_loop(), asyncio.Event()
        with select.epoll() as changes:
            changes.register(self.fd, select.EPOLLOUT | select.EPOLLET)
            loop.add_reader(changes.fileno(), changed.set)
            try:
                while True:
                    changed.clear()
                    changes.poll(0)
                    if self.has_host():
                        return
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(HOST_POLL_SECONDS):
                            await changed.wait()
            finally:
                loop.remove_reader(changes.fileno())


async def serve_stream(stream: MuxStream, reporter: Reporter, servers: Servers) -> None:
    if stream.port == IDENTITY_PORT:
        await receive_identity(stream, reporter=reporter)
    elif server := servers.get(stream.port):
        await server.serve_stream(stream)
    else:
        await connect_port(stream)


async def connect_loopback(port: int) -> socket.socket:
    """Connect to a port of this guest. Raises ConnectionRefusedError when nothing listens."""
    try:
        return await connect_address(socket.AF_INET, "127.0.0.1", port)
    except ConnectionRefusedError:
        with contextlib.suppress(OSError):  # some programs listen there only, because `localhost` is both
            return await connect_address(socket.AF_INET6, "::1", port)
        raise


async def connect_address(family: int, address: str, port: int) -> socket.socket:
    sock = socket.socket(family)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await asyncio.get_running_loop().sock_connect(sock, (address, port))
    except BaseException:
        sock.close()
        raise
    return sock


async def connect_port(stream: MuxStream) -> None:
    """Connect the stream to its port of the loopback address, and relay until both directions have ended."""
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_SECONDS):
            sock = await connect_loopback(stream.port)
    except ConnectionRefusedError:
        stream.reset(REFUSED)
        return
    except (OSError, TimeoutError):
        stream.reset(CLOSED)
        return
    stream.mux.confirm_stream(stream)
    with sock:
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(relay_to_port(stream, sock))
                tasks.create_task(relay_from_port(sock, stream))
            await stream.wait_closed()
        except* OSError:
            stream.reset(CLOSED)


async def relay_to_port(stream: MuxStream, sock: socket.socket) -> None:
    """asyncio's streams are not used: each would copy the bytes twice more."""
    loop = asyncio.get_running_loop()
    while data := await stream.read():
        await loop.sock_sendall(sock, data)
    sock.shutdown(socket.SHUT_WR)


async def relay_from_port(sock: socket.socket, stream: MuxStream) -> None:
    loop, buffer = asyncio.get_running_loop(), memoryview(bytearray(RELAY_BYTES))
    while size := await loop.sock_recv_into(sock, buffer):
        stream.write(buffer[:size])
        await stream.drain()
    stream.write_eof()


async def serve_channel(
    reader: ChannelReader, writer: ChannelWriter, reporter: Reporter | None = None, servers: Servers | None = None
) -> None:
    """Serve one host until it is gone."""
    reporter = reporter or Reporter()
    await Mux(reader, writer, lambda stream: serve_stream(stream, reporter, servers or {})).run()


def start_reporter() -> Reporter:
    """Return what reports about this guest. A source of its log that cannot be read is left out."""
    reporter = Reporter()
    for follow in (follow_kernel_log, receive_entries):
        try:
            follow(reporter.entries)
        except OSError as error:
            print(f"{follow.__name__} has failed: {error}", file=sys.stderr, flush=True)
    return reporter


async def serve_device(path: str, servers: Servers) -> None:
    """Serve the device for ever: one host after the other, also when the device is removed and added again."""
    reporter = start_reporter()
    while True:
        try:
            fd = os.open(find_device(path), os.O_RDWR | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        except OSError as error:
            print(f"{path} cannot be opened: {error.strerror}", file=sys.stderr, flush=True)
            await asyncio.sleep(DEVICE_RETRY_SECONDS)
            continue
        try:
            await serve_hosts(fd, reporter, servers)
        except OSError as error:
            print(f"{path} has failed: {error.strerror}", file=sys.stderr, flush=True)
        finally:
            os.close(fd)
        await asyncio.sleep(DEVICE_RETRY_SECONDS)


def find_device(path: str, ports_path: Path = PORTS_PATH) -> str:
    """Return the path or, while it does not exist, the device of the port that the last part of the path names.

    There is no udev. What creates the path at the start knows no port whose name the node sends later.
    """
    if not os.path.exists(path):
        for name_path in ports_path.glob("*/name"):
            with contextlib.suppress(OSError):
                if name_path.read_text().strip() == os.path.basename(path):
                    return f"/dev/{name_path.parent.name}"
    return path


async def serve_hosts(fd: int, reporter: Reporter, servers: Servers | None = None) -> None:
    """Serve one host after the other. Raises OSError when the device has failed."""
    while True:
        channel = DeviceChannel(fd)
        await channel.wait_for_host()
        await serve_channel(channel, channel, reporter, servers)
        await asyncio.sleep(NEXT_HOST_SECONDS)
