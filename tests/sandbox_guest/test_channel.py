"""The guest's end of the channel: ports, the device, and the identity."""

import asyncio
import contextlib
import errno
import json
import os
import pty
import socket
import subprocess
import sys
import time
import tty
from pathlib import Path

import pytest

from tests.support.mux_ends import exchange, open_socketpair, read_all, run, run_muxes
from worker.sandbox_guest import channel
from worker.sandbox_guest.frames import DATA, HEADER
from worker.sandbox_guest.identity_stream import IdentityRefused, receive_identity, send_identity
from worker.sandbox_guest.mux import Mux
from worker.sandbox_guest.mux_stream import StreamReset
from worker.sandbox_guest.reports import Reporter


@contextlib.asynccontextmanager
async def connect_guest():
    """Give the host's end of a channel to the real guest end."""
    host_channel, guest_channel = await open_socketpair()
    host = Mux(*host_channel)
    serving = asyncio.create_task(channel.serve_channel(*guest_channel))
    async with run_muxes(host):
        yield host
    await serving


@contextlib.contextmanager
def reserve_closed_port():
    """Give a port of 127.0.0.1 on which nothing listens meanwhile, and which no connection gets as its own."""
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        yield reserved.getsockname()[1]


def get_port(server):
    return server.sockets[0].getsockname()[1]


def test_guest_relays_to_a_port_and_reports_refused_ones():
    async def serve_reversed(reader, writer):
        writer.write((await reader.read())[::-1])
        writer.close()

    async def check():
        server = await asyncio.start_server(serve_reversed, "127.0.0.1", 0)
        async with server, connect_guest() as host:
            data = os.urandom(1 << 20)
            assert await exchange(await host.open_stream(get_port(server)), data) == data[::-1]
            with reserve_closed_port() as port, pytest.raises(StreamReset, match="refused"):
                await host.open_stream(port)
            assert host.streams == {}

    run(check())


def test_connection_that_the_guest_program_cuts_is_reset():
    async def cut_connection(reader, writer):
        await reader.read(1)
        writer.transport.abort()

    async def check():
        server = await asyncio.start_server(cut_connection, "127.0.0.1", 0)
        async with server, connect_guest() as host:
            stream = await host.open_stream(get_port(server))
            stream.write(bytes(2_000_000))
            with pytest.raises(StreamReset):
                await read_all(stream)

    run(check())


def test_reset_of_the_host_cuts_the_connection_in_the_guest():
    ends = asyncio.Queue()

    async def wait_for_end(reader, writer):
        try:
            ends.put_nowait(await reader.read(10))
        except ConnectionResetError:
            ends.put_nowait(b"")
        writer.close()

    async def check():
        server = await asyncio.start_server(wait_for_end, "127.0.0.1", 0)
        async with server, connect_guest() as host:
            (await host.open_stream(get_port(server))).reset()
            assert await ends.get() == b""

    run(check())


class HostDevice:
    """A pseudo-terminal as the guest's port: like virtio-serial, it hangs up while nobody has the other end open, and
    comes back."""

    def __init__(self):
        self.guest_fd, host_fd = pty.openpty()
        tty.setraw(host_fd)
        self.path = os.ttyname(host_fd)
        os.close(host_fd)

    def open(self):
        """Return the channel of a host."""
        return channel.DeviceChannel(os.open(self.path, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK))


def test_device_that_the_node_names_after_the_start_is_found(tmp_path):
    """Nothing but the start of the guest creates the links below /dev/virtio-ports."""
    link, ports_path = tmp_path / "org.panel.sandbox.0", tmp_path / "ports"
    for port, name in (("vport1p1", "org.qemu.guest_agent.0"), ("vport1p2", None)):
        (ports_path / port).mkdir(parents=True)
        if name:
            (ports_path / port / "name").write_text(f"{name}\n")
    assert channel.find_device(str(link), ports_path) == str(link)
    (ports_path / "vport1p2" / "name").write_text("org.panel.sandbox.0\n")
    assert channel.find_device(str(link), ports_path) == "/dev/vport1p2"
    link.touch()
    assert channel.find_device(str(link), ports_path) == str(link)


async def echo_connection(reader, writer):
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()


def test_guest_waits_for_the_host_without_spinning_and_serves_the_next_one():
    async def check():
        device = HostDevice()
        serving = asyncio.create_task(channel.serve_hosts(device.guest_fd, Reporter()))
        server = await asyncio.start_server(echo_connection, "127.0.0.1", 0)
        async with server:
            port = get_port(server)
            for _ in range(3):
                started_at = time.process_time()
                await asyncio.sleep(0.4)
                assert time.process_time() - started_at < 0.2
                host_channel = device.open()
                host = Mux(host_channel, host_channel)
                async with run_muxes(host):
                    assert await exchange(await host.open_stream(port), b"hello" * 999) == b"hello" * 999
                    stream = await host.open_stream(port)
                    host_channel.write(HEADER.pack(DATA, stream.id, 5000) + b"half a frame")
                    await host_channel.drain()
                os.close(host_channel.fd)
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        os.close(device.guest_fd)

    run(check())


PROGRAM = """
import sys
sys.path.insert(0, {path!r})
sys.argv = ["channel", "--help"]
from sandbox_guest import channel
from sandbox_guest import main
main.main()
"""


def test_program_runs_where_nothing_but_python_is(tmp_path):
    package = tmp_path / "sandbox_guest"
    package.mkdir()
    for module in Path(channel.__file__).parent.glob("*.py"):
        (package / module.name).write_bytes(module.read_bytes())
    command = [sys.executable, "-I", "-S", "-c", PROGRAM.format(path=str(tmp_path))]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    assert "--device" in answer.stdout


def test_port_of_ipv6_loopback_is_found():
    async def check():
        with reserve_closed_port() as port:
            try:
                server = await asyncio.start_server(echo_connection, "::1", port)
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    raise
                pytest.skip("this machine has no IPv6")
            async with server, connect_guest() as host:
                assert await exchange(await host.open_stream(port), b"six") == b"six"

    run(check())


def test_small_pieces_after_a_large_one_are_joined(monkeypatch):
    monkeypatch.setattr(channel, "GATHER_SECONDS", 0.2)

    async def check():
        device, host = socket.socketpair()
        with device, host:
            reader = channel.DeviceChannel(device.fileno())
            host.send(b"x" * channel.PORT_READ_BYTES)
            assert len(await reader.read(65536)) == channel.PORT_READ_BYTES
            second_read = asyncio.create_task(reader.read(65536))
            for piece in (b"a", b"b", b"c"):
                host.send(piece)
                await asyncio.sleep(0.01)
            assert await second_read == b"abc"
            host.send(b"d")
            started_at = time.monotonic()
            assert await reader.read(65536) == b"d"
            assert time.monotonic() - started_at < 0.2, "nothing large was before it"

    run(check())


def test_stream_to_a_port_cannot_reach_the_identity():
    async def check():
        async with connect_guest() as host:
            await host.wait_until_established()
            for port in (0, -1, 65536):
                with pytest.raises(ValueError, match="port"):
                    await host.open_stream(port)

    run(check())


def test_identity_is_passed_through_the_channel(tmp_path, monkeypatch):
    monkeypatch.setattr(
        channel, "receive_identity", lambda stream, reporter: receive_identity(stream, tmp_path, reporter)
    )
    (tmp_path / "etc").mkdir()
    document = {"access_token": "secret", "host_name": "sandbox-7", "env": {"A": "x" * 300_000}}

    async def check():
        async with connect_guest() as host:
            await send_identity(host, document)
            with pytest.raises(IdentityRefused, match="access_token is missing"):
                await send_identity(host, {"host_name": "other"})
            with pytest.raises(StreamReset, match="protocol"):
                await send_identity(host, {**document, "env": {"A": "x" * 1_100_000}})

    run(check())
    assert (tmp_path / "etc/hostname").read_text() == "sandbox-7\n"
    stored = json.loads((tmp_path / "run/sandbox/identity.json").read_text())
    assert stored == {"access_token": "secret", "env": document["env"]}
