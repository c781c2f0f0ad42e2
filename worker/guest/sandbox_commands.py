"""Commands inside a sandbox, through its channel: what SDKs do through the router, for the panel itself.

The guest is not trusted: whatever it answers, a call ends, and memory is bounded.
"""

import asyncio
import base64
import codecs
import contextlib
import os
import secrets
import socket
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import asdict

import h11

from panel.services.microvms.network import InterfaceSettings
from worker.sandbox_guest.connect_protocol import (
    END_FLAG,
    ENVELOPE_HEAD,
    STREAM_TYPE,
    Message,
    encode_envelope,
    encode_message,
    get_bytes,
    get_message,
    parse_message,
)
from worker.sandbox_guest.errors import RpcError
from worker.sandbox_guest.identity_stream import IdentityRefused, send_identity
from worker.sandbox_guest.mux import ChannelLost, Mux
from worker.sandbox_guest.mux_stream import REFUSED, MuxStream, StreamReset

DAEMON_PORT = 49983
START_SECONDS = 180.0
"""Seconds in which a guest that was just started answers on its channel, and its daemon listens."""
REQUEST_SECONDS = 30.0
"""Seconds in which a guest accepts its identity or a stream."""
RETRY_INTERVAL_SECONDS = 0.2
ENTROPY_BYTES = 64
MAX_MESSAGE_BYTES = 1024 * 1024
MAX_OUTPUT_BYTES = 64 * 1024 * 1024
"""Bytes that one command may write."""

Output = Callable[[str], None]


class GuestFailed(Exception):
    """The guest does not answer, or answers wrongly."""


class OutputTooLarge(Exception):
    """A command wrote more than `MAX_OUTPUT_BYTES`."""


GUEST_ERRORS = (ChannelLost, StreamReset, IdentityRefused, RpcError, h11.RemoteProtocolError, OSError, ValueError)


class SandboxCommands:
    """Executes commands in a sandbox that has its identity."""

    def __init__(self, mux: Mux, access_token: str) -> None:
        self.mux, self.access_token = mux, access_token

    async def run(self, command: str, on_output: Output) -> int:
        """Execute a command as root with bash and return its exit code, negative for a signal. Raises `GuestFailed`,
        `OutputTooLarge`."""
        try:
            stream = await self.open_daemon()
            try:
                return await self.read_result(stream, command, on_output)
            finally:
                stream.reset()
        except GUEST_ERRORS as error:
            raise GuestFailed(repr(error)) from error

    async def open_daemon(self) -> MuxStream:
        """Open a stream to the daemon, which may still be starting."""
        async with asyncio.timeout(START_SECONDS):
            while True:
                try:
                    return await self.mux.open_stream(DAEMON_PORT)
                except StreamReset as reset:
                    if reset.reason != REFUSED:
                        raise
                await asyncio.sleep(RETRY_INTERVAL_SECONDS)

    async def read_result(self, stream: MuxStream, command: str, on_output: Output) -> int:
        message = {"process": {"cmd": "/bin/bash", "args": ["-l", "-c", command], "cwd": "/root"}, "stdin": False}
        connection = h11.Connection(h11.CLIENT)
        self.send_request(connection, stream, encode_envelope(encode_message(message)))
        decoder, size = codecs.getincrementaldecoder("utf-8")("replace"), 0
        async for event in read_events(connection, stream):
            data = get_message(event, "data")
            output = get_bytes(data, "stdout") + get_bytes(data, "stderr")
            size += len(output)
            if size > MAX_OUTPUT_BYTES:
                raise OutputTooLarge
            if text := decoder.decode(output):
                on_output(text.replace("\0", ""))
            if "end" in event:
                return get_exit_code(get_message(event, "end"))
        raise GuestFailed("The answer ended before the command.")

    def send_request(self, connection: h11.Connection, stream: MuxStream, body: bytes) -> None:
        headers = [
            ("Host", "sandbox"),
            ("Content-Type", STREAM_TYPE),
            ("Content-Length", str(len(body))),
            ("Connection", "close"),
            ("X-Access-Token", self.access_token),
            ("Authorization", "Basic " + base64.b64encode(b"root:").decode()),
        ]
        request = h11.Request(method="POST", target="/process.Process/Start", headers=headers)
        for event in (request, h11.Data(data=body), h11.EndOfMessage()):
            stream.write(connection.send(event) or b"")


async def read_events(connection: h11.Connection, stream: MuxStream) -> AsyncIterator[Message]:
    """Yield the events of a command until the end of the answer."""
    buffer = bytearray()
    async for data in read_body(connection, stream):
        buffer += data
        while len(buffer) >= ENVELOPE_HEAD.size:
            flags, length = ENVELOPE_HEAD.unpack_from(buffer)
            if length > MAX_MESSAGE_BYTES:
                raise GuestFailed("A message is too large.")
            end = ENVELOPE_HEAD.size + length
            if len(buffer) < end:
                break
            message = parse_message(bytes(buffer[ENVELOPE_HEAD.size : end]))
            del buffer[:end]
            if flags & END_FLAG:
                raise GuestFailed(f"The command was not executed: {message}")
            yield get_message(message, "event")


async def read_body(connection: h11.Connection, stream: MuxStream) -> AsyncIterator[bytes]:
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(await stream.read())
        elif isinstance(event, h11.Response) and event.status_code != 200:
            raise GuestFailed(f"The daemon answered {event.status_code}.")
        elif isinstance(event, h11.Data):
            yield bytes(event.data)
        elif isinstance(event, h11.EndOfMessage | h11.ConnectionClosed):
            return


def get_exit_code(end: Message) -> int:
    """Return the exit code of an end event. JSON of protocol buffers omits a zero."""
    code = end.get("exitCode", 0)
    if isinstance(code, bool) or not isinstance(code, int):
        raise GuestFailed("The exit code is not a number.")
    return max(-256, min(code, 256))


@contextlib.asynccontextmanager
async def open_commands(
    channel: socket.socket, envs: Mapping[str, str], interface: InterfaceSettings | None = None
) -> AsyncIterator[SandboxCommands]:
    """Give the sandbox at the other end of a channel an identity, without a name, and yield its commands. Raises
    `GuestFailed`. The channel is closed at the end."""
    reader, writer = await asyncio.open_connection(sock=channel)
    mux = Mux(reader, writer)
    running = asyncio.create_task(mux.run())
    try:
        access_token = secrets.token_hex(32)
        try:
            async with asyncio.timeout(START_SECONDS):
                await mux.wait_until_established()
            async with asyncio.timeout(REQUEST_SECONDS):
                await send_identity(mux, build_identity(access_token, envs, interface))
        except GUEST_ERRORS as error:
            raise GuestFailed(repr(error)) from error
        yield SandboxCommands(mux, access_token)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def build_identity(
    access_token: str, envs: Mapping[str, str], interface: InterfaceSettings | None
) -> dict[str, object]:
    """Return an identity without host name and machine id: they would be in the image."""
    return {
        "access_token": access_token,
        "env": dict(envs),
        "entropy": base64.b64encode(os.urandom(ENTROPY_BYTES)).decode(),
        "time": time.time(),
        **({"network": asdict(interface)} if interface else {}),
    }
