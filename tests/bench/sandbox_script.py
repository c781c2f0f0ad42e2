"""Sandboxes started by libvirt calls only, for comparison with the panel: the definition is that of a pool's member."""

import asyncio
import base64
import contextlib
import json
import os
import shutil
import struct
import time
import uuid

import libvirt

from panel.schemas.microvm_connectors import DAEMON_PORT
from worker import nodes
from worker.guest.sandbox_health import wait_for_daemon
from worker.nodes.base import NodeSpec
from worker.sandbox_guest.identity_stream import send_identity
from worker.sandbox_guest.mux import Mux

STATE_PATH = "/var/lib/libvirt/script-state"
"""Where the node's daemon stores the memory: in its directory `lib`."""
START_SECONDS = 300
NAME, TOKEN = "script", "token-of-the-script"
CHANNEL_LOOP = """
trap '' HUP; sleep 1; exec >/dev/null 2>&1; cd /root; device=/dev/virtio-ports/org.panel.sandbox.0
for process in /proc/[0-9]*; do
  case $(tr '\\0' ' ' <$process/cmdline) in "python3 -m sandbox_guest"*) kill -9 ${process#/proc/};; esac
done
until { exec 3<>$device; }; do sleep 0.02; done
until read -N 1 -u 3 byte && [ "$byte" = s ]; do sleep 0.05; done
while :; do
  dd bs=65536 count=%(blocks)d iflag=fullblock <&3 >raw; printf k >&3
  read -N 1 -u 3 byte; cat raw >&3
done
"""
"""Takes the channel from the daemon, which answers the command before. Stores what the host sends and sends it back,
again and again."""


class ScriptSandboxes:
    def __init__(self, lab, hypervisor):
        self.connection = libvirt.open(hypervisor.uri)
        self.node = nodes.connect(NodeSpec("script", "script", "libvirt", hypervisor.uri), lab.installation.data_dir)
        member = next(domain for domain in self.connection.listAllDomains() if domain.hasManagedSaveImage())
        member_name, self.id = member.name(), str(uuid.uuid4())
        definition = member.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE | libvirt.VIR_DOMAIN_XML_SECURE)
        self.definition = definition.replace(member.UUIDString(), self.id).replace(member_name, NAME)
        self.pool = self.connection.storagePoolLookupByName("default")
        volume = self.pool.storageVolLookupByName(f"{member_name}.qcow2").XMLDesc()
        self.volume = volume.replace(member_name, NAME)
        self.disk = hypervisor.directory / "disks" / f"{NAME}.qcow2"
        self.saved_disk = hypervisor.directory / "script-disk"
        self.raw_channel = None
        self.save()

    def save(self):
        """Boot the machine and save it without an identity, as members of a pool are."""
        self.boot()
        wait_for_daemon(self.node.open_channel(self.id), lambda: None, START_SECONDS)
        time.sleep(0.5)
        self.connection.lookupByUUIDString(self.id).save(STATE_PATH)
        shutil.copyfile(self.disk, self.saved_disk)
        self.delete()

    def boot(self):
        self.pool.createXML(self.volume)
        self.connection.defineXML(self.definition).create()

    def restore(self):
        """Continue from the saved state."""
        self.connection.restore(STATE_PATH)

    def delete(self):
        domain = self.connection.lookupByUUIDString(self.id)
        with contextlib.suppress(libvirt.libvirtError):
            domain.destroy()
        with contextlib.suppress(libvirt.libvirtError):
            domain.undefine()
        self.pool.storageVolLookupByName(f"{NAME}.qcow2").delete()

    def prepare_restore(self):
        self.pool.createXML(self.volume)
        shutil.copyfile(self.saved_disk, self.disk)

    def start_warm(self):
        self.prepare_restore()
        started_at = time.perf_counter()
        self.restore()
        self.run("true")
        seconds = time.perf_counter() - started_at
        self.delete()
        return seconds

    def start_cold(self):
        started_at = time.perf_counter()
        self.boot()
        self.run("true")
        seconds = time.perf_counter() - started_at
        self.delete()
        return seconds

    def run(self, command, user="user"):
        """Give the sandbox an identity and run a command in it."""
        with self.node.open_channel(self.id) as channel:
            asyncio.run(asyncio.wait_for(run_command(channel, command, user), START_SECONDS))

    def measure_channel(self, data):
        """Return the seconds that the bytes take to a file in the guest, and back, through the channel alone."""
        if self.raw_channel is None:
            self.prepare_restore()
            self.restore()
            loop = CHANNEL_LOOP % {"blocks": len(data) // 65536}
            self.run(f"setsid bash -c {quote(loop)} & sleep 0.1", "root")
            time.sleep(4)
            self.raw_channel = self.node.open_channel(self.id)
            time.sleep(2)
            self.raw_channel.sendall(b"s")
        channel = self.raw_channel
        started_at = time.perf_counter()
        channel.sendall(data)
        assert channel.recv(1) == b"k"
        written_at = time.perf_counter()
        channel.sendall(b"g")
        received = bytearray()
        while len(received) < len(data):
            received += channel.recv(1024 * 1024)
        seconds = time.perf_counter() - written_at
        assert received == data
        return written_at - started_at, seconds


def quote(text):
    return "'" + text.replace("'", "'\\''") + "'"


async def run_command(channel, command, user):
    mux = Mux(*await asyncio.open_connection(sock=channel))
    running = asyncio.create_task(mux.run())
    try:
        await mux.wait_until_established()
        await send_identity(mux, build_identity())
        while (answer := await request_command(mux, command, user)) is None:
            await asyncio.sleep(0.05)  # the daemon of a booting guest starts after the channel
        assert b"exit status 0" in answer, answer
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def build_identity():
    return {
        "access_token": TOKEN,
        "host_name": "script",
        "machine_id": uuid.uuid4().hex,
        "entropy": base64.b64encode(os.urandom(64)).decode(),
        "time": time.time(),
    }


async def request_command(mux, command, user):
    """Return the answer to the call that runs the command, or None when the daemon does not listen yet."""
    document = json.dumps({"process": {"cmd": "/bin/bash", "args": ["-l", "-c", command]}}).encode()
    body = struct.pack(">BI", 0, len(document)) + document
    head = (
        "POST /process.Process/Start HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        f"Content-Type: application/connect+json\r\nContent-Length: {len(body)}\r\nX-Access-Token: {TOKEN}\r\n"
        f"Authorization: Basic {base64.b64encode(f'{user}:'.encode()).decode()}\r\n\r\n"
    )
    try:
        stream = await mux.open_stream(DAEMON_PORT)
    except ConnectionError:
        return None
    stream.write(head.encode() + body)
    answer = bytearray()
    while data := await stream.read():
        answer += data
    stream.reset()
    return bytes(answer)
