"""A sandbox image started by QEMU alone, with its channel as a TCP port of this machine for SDKs."""

import asyncio
import contextlib
import socket
import subprocess
import threading
import time

from worker.sandbox_guest.identity_stream import send_identity
from worker.sandbox_guest.mux import Mux

DAEMON_PORT = 49983
START_SECONDS = 300
"""A boot takes 5 seconds of CPU; the machine may have other work."""


class SandboxMachine:
    """A running sandbox. `port` leads to its daemon."""

    def __init__(self, image, folder):
        self.image, self.folder = image, folder
        self.loop = self.mux = None
        self.port = 0
        self.started = threading.Event()

    @contextlib.contextmanager
    def run(self):
        disk = self.folder / "disk.qcow2"
        backing = ["-b", self.image.disk.path.resolve(), "-F", "qcow2"]
        subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", *backing, disk, "1G"], check=True)
        process = subprocess.Popen(self.make_command(disk))
        thread = threading.Thread(target=lambda: asyncio.run(self.serve()))
        try:
            thread.start()
            assert self.started.wait(START_SECONDS), (self.folder / "console").read_text(errors="replace")
            yield self
        finally:
            process.kill()  # the channel ends, and `serve` with it
            process.wait()
            thread.join()

    def make_command(self, disk):
        return [
            *("qemu-system-x86_64", "-machine", "q35", "-cpu", "max", "-m", "192", "-display", "none"),
            *("-nodefaults", "-no-user-config", "-serial", f"file:{self.folder / 'console'}"),
            *("-kernel", self.image.kernel.path, "-initrd", self.image.initrd.path),
            *("-append", self.image.kernel_options),
            *("-drive", f"file={disk},if=virtio,format=qcow2,cache=unsafe"),
            *("-device", "virtio-rng-pci", "-device", "virtio-serial-pci"),
            *("-chardev", f"socket,id=channel,path={self.folder / 'channel'},server=on,wait=off"),
            *("-device", "virtserialport,chardev=channel,name=org.panel.sandbox.0"),
        ]

    async def serve(self):
        """Serve the channel until the machine ends."""
        self.loop = asyncio.get_running_loop()
        reader, writer = await asyncio.open_unix_connection(sock=await self.connect_channel())
        self.mux = Mux(reader, writer)
        running = asyncio.create_task(self.mux.run())
        await self.mux.wait_until_established()
        server = await asyncio.start_server(self.relay, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self.started.set()
        await running
        server.close()

    async def connect_channel(self):
        deadline = time.monotonic() + START_SECONDS
        while True:
            channel = socket.socket(socket.AF_UNIX)
            try:
                channel.connect(str(self.folder / "channel"))
                return channel
            except OSError:
                channel.close()
                assert time.monotonic() < deadline
                await asyncio.sleep(0.05)

    async def relay(self, reader, writer):
        """Connect a TCP connection to the daemon, which starts later than the channel."""
        stream = None
        with contextlib.suppress(OSError):
            while stream is None:
                with contextlib.suppress(ConnectionError):
                    stream = await self.mux.open_stream(DAEMON_PORT)
                await asyncio.sleep(0.05 if stream is None else 0)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(copy(reader, stream))
                tasks.create_task(copy(stream, writer))
        if stream:
            stream.reset()
        writer.close()

    def send_identity(self, document):
        asyncio.run_coroutine_threadsafe(send_identity(self.mux, document), self.loop).result(60)


async def copy(source, target):
    while data := await source.read(65536):
        target.write(data)
        await target.drain()
    target.write_eof()
