"""A router in this process, with guests whose channels end in local ports instead of machines."""

import asyncio
import contextlib
import json
import socket
import time

from panel.services.microvms.read import Route
from worker.sandbox_guest import channel
from worker.sandbox_guest.identity_stream import receive_identity
from worker.sandbox_guest.mux import Mux
from worker.sandbox_guest.mux_stream import IDENTITY_PORT
from worker.sandbox_router.channels import ChannelPool
from worker.sandbox_router.report_writer import ReportWriter
from worker.sandbox_router.reports import ReportCollector
from worker.sandbox_router.routes import RouteTable
from worker.sandbox_router.server import Router

DOMAIN = "sandboxes.example.com"
SANDBOX_ID, OTHER_SANDBOX_ID = "i7k2m9q4x8", "a1b2c3d4e5"
TOKEN = "token-of-the-tests"


def build_route(sandbox_id=SANDBOX_ID, state="running", **values):
    fields = {"machine_id": f"machine of {sandbox_id}", "hypervisor_id": "node", "name": "A name", "envs": {"A": "1"}}
    return Route(sandbox_id=sandbox_id, state=state, access_token=TOKEN, **{**fields, **values})


class Lab:
    """`rows`: what the database has. `ports`: ports of guests that lead to other ports of this machine."""

    def __init__(self, root, rows=None):
        self.root = root
        self.rows = {SANDBOX_ID: build_route()} if rows is None else rows
        self.connectors = {}
        """Sandbox and port by the label of the connector."""
        self.ports = {}
        self.events = []
        """`channel`, `identity` and the ports, in the order in which guests saw them."""
        self.guests = []
        self.lookups = self.polls = 0
        self.channel_error = None
        self.reporter = None
        """What reports about the guests; without it they are as those of older images."""
        self.loop = None
        self.address = None

    def find_route(self, sandbox_id):
        self.lookups += 1
        return self.rows.get(sandbox_id)

    def find_starting(self, sandbox_ids):
        self.polls += 1
        return {
            row.sandbox_id for row in self.rows.values() if row.sandbox_id in sandbox_ids and row.state == "starting"
        }

    def make_routes(self):
        return RouteTable(self.find_route, self.connectors.get, self.find_starting)

    def open_socket(self, route):
        if self.channel_error:
            raise self.channel_error
        router_end, guest_end = socket.socketpair()
        asyncio.run_coroutine_threadsafe(self.start_guest(guest_end), self.loop).result(5)
        return router_end

    async def start_guest(self, guest_end):
        self.events.append("channel")
        mux = Mux(*await asyncio.open_connection(sock=guest_end), self.accept)
        self.guests.append(asyncio.create_task(mux.run()))

    async def accept(self, stream):
        if stream.port == IDENTITY_PORT:
            self.events.append("identity")
            return await receive_identity(stream, self.root, self.reporter)
        self.events.append(stream.port)
        stream.port = self.ports.get(stream.port, stream.port)
        return await channel.connect_port(stream)

    async def end_guests(self):
        """End all channels, as pausing or destroying the machines does."""
        for guest in self.guests:
            guest.cancel()
        await asyncio.gather(*self.guests, return_exceptions=True)
        self.guests.clear()

    def read_identity(self):
        return json.loads((self.root / "run/sandbox/identity.json").read_text())

    @contextlib.asynccontextmanager
    async def run_router(self, *, max_streams=128, **options):
        (self.root / "etc").mkdir(exist_ok=True)
        self.loop = asyncio.get_running_loop()
        router = Router(self.make_routes(), ChannelPool(self.open_socket, max_streams), DOMAIN, **options)
        server = await asyncio.start_server(router.serve_client, "127.0.0.1", 0)
        self.address = server.sockets[0].getsockname()
        try:
            yield router
        finally:
            server.close()
            for client in list(router.clients):
                client.cancel()
            await router.channels.close()
            await self.end_guests()

    @contextlib.asynccontextmanager
    async def collect_reports(self, router, write):
        """Collect the reports of the sandboxes that run, and pass them to `write`."""
        list_running = lambda _maximum: [row.sandbox_id for row in self.rows.values() if row.state == "running"]  # noqa: E731
        options = {"sample_interval": 0.2, "keep_interval": 0.1}
        collector = ReportCollector(router.channels, router.routes, ReportWriter(write), list_running, **options)
        task = asyncio.create_task(collector.run())
        try:
            yield collector
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    @contextlib.asynccontextmanager
    async def connect(self):
        """Give (reader, writer) of a client's connection to the router."""
        reader, writer = await asyncio.open_connection(*self.address)
        try:
            yield reader, writer
        finally:
            writer.close()

    async def send(self, request):
        """Send bytes and return all bytes of the answer."""
        async with self.connect() as (reader, writer):
            writer.write(request)
            return await reader.read()

    async def call(self, target="/", *, host=None, headers=None, method="GET", body=b""):
        """Send a request and return the status and the body, parsed when it is JSON."""
        answer = await self.send(build_request(target, host=host, headers=headers, method=method, body=body))
        head, _blank, content = answer.partition(b"\r\n\r\n")
        status = int(head.split()[1])
        return status, json.loads(content) if b"application/json" in head.lower() else content


def make_host(port, sandbox_id=SANDBOX_ID):
    return f"{port}-{sandbox_id}.{DOMAIN}"


def make_headers(port, sandbox_id=SANDBOX_ID):
    return {"E2b-Sandbox-Id": sandbox_id, "E2b-Sandbox-Port": str(port)}


def build_request(target="/", *, host=None, headers=None, method="GET", body=b""):
    fields = {"Host": host or "127.0.0.1", **(headers or {})}
    if body:
        fields["Content-Length"] = str(len(body))
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items()), "", ""]
    return "\r\n".join(lines).encode() + body


def find_closed_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


@contextlib.asynccontextmanager
async def run_program(serve):
    """Give the port of a program in the guest: `serve(reader, writer)` for each connection."""

    async def serve_connection(reader, writer):
        with contextlib.suppress(OSError):
            await serve(reader, writer)
        writer.close()

    server = await asyncio.start_server(serve_connection, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def answer_with_request(reader, writer):
    """Answer with the head of the request as it arrived, and its body."""
    head = await reader.readuntil(b"\r\n\r\n")
    fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:-2])
    body = await reader.readexactly(int(fields.get(b"content-length", 0)))
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (len(head) + len(body)) + head + body)
    await writer.drain()


async def serve_stream(reader, writer):
    """Answer with a chunk and nothing more."""
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
    await reader.read()


async def wait_until(condition, seconds=10):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)
