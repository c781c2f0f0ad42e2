"""Requests to the daemon on streams of the channel, which pass no socket of the guest."""

import asyncio
import contextlib
import json
import os

import pytest

from tests.sandbox_guest.daemon import write_identity
from tests.sandbox_guest.raw_client import STREAM_TYPE, TOKEN, encode_envelope
from tests.support.mux_ends import open_socketpair, read_all, run, run_muxes, wait_until
from worker.sandbox_guest import channel, http_body, http_server
from worker.sandbox_guest.application import Application
from worker.sandbox_guest.frames import MARKER
from worker.sandbox_guest.http_server import HttpServer
from worker.sandbox_guest.identity import IdentityFile
from worker.sandbox_guest.log_entries import LogEntries
from worker.sandbox_guest.mux import Mux
from worker.sandbox_guest.mux_stream import PAYLOAD_BYTES, StreamReset

PORT = 49983
BOUNDARY = b"a-boundary"


@contextlib.asynccontextmanager
async def connect_daemon(tmp_path, **options):
    """Give the host's end of a channel to a daemon, and the daemon's server."""
    write_identity(tmp_path / "identity.json")
    application = Application(IdentityFile(str(tmp_path / "identity.json")), LogEntries())
    server = HttpServer(application.handle, **options)
    host_channel, guest_channel = await open_socketpair()
    host = Mux(*host_channel)
    serving = asyncio.create_task(channel.serve_channel(*guest_channel, servers={PORT: server}))
    async with run_muxes(host):
        yield host, server
    await serving


def build_request(method, target, body=b"", *, token=TOKEN, content_type="application/octet-stream", end="close"):
    lines = [f"{method} {target} HTTP/1.1", "Host: sandbox", f"Connection: {end}", f"Content-Length: {len(body)}"]
    lines += [f"Content-Type: {content_type}", *([f"X-Access-Token: {token}"] if token else []), "", ""]
    return "\r\n".join(lines).encode() + body


def build_form(data):
    head = b'--%b\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\n' % BOUNDARY
    return head + data + b"\r\n--%b--\r\n" % BOUNDARY


def parse_answer(answer):
    head, _blank, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), body


async def call(host, request):
    """Return the status and the body of the answer, after which the daemon ends the stream."""
    stream = await host.open_stream(PORT)
    stream.write(request)
    answer = await read_all(stream)
    stream.write_eof()
    await stream.wait_closed()
    return parse_answer(answer)


def test_files_pass_the_channel_unchanged(tmp_path):
    data = os.urandom(5 * PAYLOAD_BYTES + 7) + MARKER * 3 + b"\r\n--a-bound" * 9 + b"\r" + os.urandom(2_000_000)

    async def check():
        async with connect_daemon(tmp_path) as (host, server):
            for content in (data, data[:-1], data[: 2 * PAYLOAD_BYTES], b"\r", b"x"):
                request = build_request(
                    "POST",
                    f"/files?path={tmp_path}/file",
                    build_form(content),
                    content_type=f"multipart/form-data; boundary={BOUNDARY.decode()}",
                )
                status, body = await call(host, request)
                assert (status, json.loads(body)[0]["path"]) == (200, f"{tmp_path}/file")
                assert (tmp_path / "file").read_bytes() == content
                assert await call(host, build_request("GET", f"/files?path={tmp_path}/file")) == (200, content)
            assert host.streams == {}
            await wait_until(lambda: not server.connections)

    run(check())


def test_plain_upload_and_range(tmp_path):
    data = os.urandom(1_500_000)

    async def check():
        async with connect_daemon(tmp_path) as (host, _server):
            assert (await call(host, build_request("POST", f"/files?path={tmp_path}/file", data)))[0] == 200
            request = build_request("GET", f"/files?path={tmp_path}/file")
            request = request.replace(b"\r\n\r\n", b"\r\nRange: bytes=70000-900000\r\n\r\n", 1)
            assert await call(host, request) == (206, data[70000:900001])

    run(check())


def test_token_is_required(tmp_path):
    (tmp_path / "file").write_text("secret")

    async def check():
        async with connect_daemon(tmp_path) as (host, _server):
            for token in (None, "other"):
                for method in ("GET", "POST"):
                    request = build_request(method, f"/files?path={tmp_path}/file", b"new", token=token)
                    status, body = await call(host, request)
                    assert status == 401
                    assert b"secret" not in body

    run(check())
    assert (tmp_path / "file").read_text() == "secret"


def test_connection_carries_several_requests(tmp_path):
    async def check():
        async with connect_daemon(tmp_path) as (host, _server):
            stream = await host.open_stream(PORT)
            requests = [
                build_request("POST", f"/files?path={tmp_path}/{n}", b"x" * n, end="keep-alive") for n in (1, 2, 3)
            ]
            stream.write(b"".join(requests) + build_request("GET", "/health"))
            answers = await read_all(stream)
            assert answers.count(b"HTTP/1.1 200 OK") == 3
            assert answers.count(b"HTTP/1.1 204 No Content") == 1

    run(check())


def test_large_and_late_heads_are_refused(tmp_path):
    async def check():
        async with connect_daemon(tmp_path, head_timeout=0.2) as (host, _server):
            assert (await call(host, b"GET /health HTTP/1.1\r\nX: " + b"x" * 100_000))[0] == 431
            assert (await call(host, b"GET /health HTTP/1.1\r\nX: "))[0] == 408

    run(check())


def test_connections_are_limited(tmp_path):
    async def check():
        async with connect_daemon(tmp_path, maximum=1) as (host, server):
            await host.open_stream(PORT)
            await wait_until(lambda: server.connections)
            assert (await call(host, build_request("GET", "/health")))[0] == 503

    run(check())


def test_host_that_sends_after_the_end_is_reset(tmp_path, monkeypatch):
    monkeypatch.setattr(http_server, "LINGER_SECONDS", 0.1)

    async def check():
        async with connect_daemon(tmp_path) as (host, server):
            stream = await host.open_stream(PORT)
            stream.write(build_request("GET", "/health"))
            assert parse_answer(await read_all(stream))[0] == 204
            await wait_until(lambda: not server.connections)
            stream.write(b"more")
            await asyncio.wait_for(stream.wait_closed(), 5)
            assert stream.reset_reason

    run(check())


def test_file_that_becomes_shorter_cuts_the_answer(tmp_path):
    size = 4_000_000
    (tmp_path / "file").write_bytes(os.urandom(size))

    async def check():
        async with connect_daemon(tmp_path) as (host, _server):
            stream = await host.open_stream(PORT)
            stream.write(build_request("GET", f"/files?path={tmp_path}/file"))
            await wait_until(lambda: stream.received_bytes > 0)
            os.truncate(tmp_path / "file", 1_000_000)
            received = await read_all(stream)
            assert b"Content-Length: %d" % size in received
            assert len(received) < size

    run(check())


def test_body_that_pauses_for_too_long_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(http_body, "BODY_IDLE_TIMEOUT_SECONDS", 0.2)

    async def check():
        async with connect_daemon(tmp_path) as (host, _server):
            request = build_request("POST", f"/files?path={tmp_path}/file", bytes(300_000))
            assert (await call(host, request[:-5]))[0] == 408

    run(check())


@pytest.mark.parametrize("has_end", [True, False])
def test_upload_that_is_cut_ends_its_connection(tmp_path, has_end):
    async def check():
        async with connect_daemon(tmp_path) as (host, server):
            stream = await host.open_stream(PORT)
            stream.write(build_request("POST", f"/files?path={tmp_path}/file", bytes(300_000))[:-5])
            await wait_until((tmp_path / "file").exists)
            if has_end:
                stream.write_eof()
                with contextlib.suppress(StreamReset):
                    assert await read_all(stream) == b""
            else:
                stream.reset()
            await wait_until(lambda: not server.connections)

    run(check())


def test_command_of_a_lost_client_goes_on(tmp_path):
    process = {"cmd": "/bin/sh", "args": ["-c", f"sleep 0.5; touch {tmp_path}/done"]}
    body = encode_envelope({"process": process})

    async def check():
        async with connect_daemon(tmp_path) as (host, server):
            stream = await host.open_stream(PORT)
            stream.write(build_request("POST", "/process.Process/Start", body, content_type=STREAM_TYPE))
            assert b'"start"' in await stream.read()
            stream.reset()
            await wait_until(lambda: not server.connections)
            assert not (tmp_path / "done").exists()
            await wait_until((tmp_path / "done").exists)

    run(check())
