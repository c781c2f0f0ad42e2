"""The guest of a simulated micro VM: it takes its identity through the channel and answers commands from a table."""

import asyncio
import base64
import json

import pytest

from worker.nodes.simulated import SimulatedNode
from worker.sandbox_guest.connect_protocol import END_FLAG, ENVELOPE_HEAD, encode_envelope
from worker.sandbox_guest.identity_stream import read_document
from worker.sandbox_guest.mux import Mux
from worker.sandbox_guest.mux_stream import IDENTITY_PORT

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/connect+json\r\nConnection: close\r\n\r\n"
HANG = object()


class SimulatedSandbox:
    """`answers`: (output, exit code) by command; others write nothing and succeed. A function is called first. `HANG`:
    the command never ends."""

    def __init__(self):
        self.answers = {}
        self.commands, self.identities = [], []

    def serve_channel(self, guest_end):
        asyncio.run(self.serve(guest_end.dup()))

    async def serve(self, guest_end):
        guest_end.setblocking(False)
        await Mux(*await asyncio.open_connection(sock=guest_end), self.accept).run()

    async def accept(self, stream):
        stream.mux.confirm_stream(stream)
        if stream.port == IDENTITY_PORT:
            self.identities.append(await read_document(stream))
            stream.write(b"{}")
        else:
            await self.answer(stream)
        stream.write_eof()
        await stream.wait_closed()

    async def answer(self, stream):
        data = b""
        while b"\r\n\r\n" not in data:
            data += await stream.read()
        head, _, body = data.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].split()[0])
        while len(body) < length:
            body += await stream.read()
        assert f"x-access-token: {self.identities[-1]['access_token']}".encode() in head.lower()
        command = json.loads(body[ENVELOPE_HEAD.size :])["process"]["args"][-1]
        self.commands.append(command)
        stream.write(HEAD)
        answer = self.answers.get(command, ("", 0))
        if answer is HANG:
            await asyncio.sleep(3600)
        output, code = answer() if callable(answer) else answer
        for event in (
            {"start": {"pid": 7}},
            {"data": {"stdout": base64.b64encode(output.encode()).decode()}},
            {"end": {"exitCode": code, "exited": True}},
        ):
            stream.write(encode_envelope(json.dumps({"event": event}).encode()))
        stream.write(encode_envelope(b"{}", END_FLAG))


@pytest.fixture
def simulated_sandbox(monkeypatch):
    """What the guests of simulated nodes answer."""
    sandbox = SimulatedSandbox()
    monkeypatch.setattr(SimulatedNode, "serve_channel", staticmethod(sandbox.serve_channel))
    return sandbox
