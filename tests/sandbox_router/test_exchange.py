"""What is carried between a client and a program in a sandbox, and what is not."""

import asyncio
import os

import pytest

from tests.sandbox_router.lab import (
    OTHER_SANDBOX_ID,
    SANDBOX_ID,
    TOKEN,
    answer_with_request,
    build_request,
    build_route,
    make_host,
    run_program,
    serve_stream,
    wait_until,
)
from tests.support.mux_ends import run
from worker.sandbox_router.routes import CACHE_SECONDS


def test_hop_by_hop_headers_are_not_passed_on(lab):
    async def check():
        async with lab.run_router(), run_program(answer_with_request) as port:
            headers = {"Connection": "keep-alive, X-Hop", "X-Hop": "1", "TE": "trailers", "X-Own": "2"}
            _status, body = await lab.call(host=make_host(port), headers=headers)
            assert (
                body == f"GET / HTTP/1.1\r\nHost: {make_host(port)}\r\nX-Own: 2\r\nConnection: close\r\n\r\n".encode()
            )

    run(check())


def test_second_request_is_not_passed_on(lab):
    requests = []

    async def serve(reader, writer):
        requests.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\nok" * 2)
        requests.append(await reader.read())

    async def check():
        async with lab.run_router(), run_program(serve) as port:
            first, second = build_request(host=make_host(port)), build_request("/second", host=make_host(port))
            answer = await lab.send(first + second)
            assert answer.count(b"HTTP/1.1 ") == 1, "a second answer could reach another client of a proxy"
            assert b"Connection: close" in answer
            assert b"keep-alive" not in answer
            await wait_until(lambda: len(requests) == 2)
            assert requests[1] == b""

    run(check())


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
        (b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", 501),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 70_000 + b"\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 200_000, 431),
    ],
)
def test_bad_heads_are_refused(lab, request_bytes, status):
    async def check():
        async with lab.run_router():
            answer = await lab.send(request_bytes)
            assert answer.startswith(b"HTTP/1.1 %d " % status)
            assert b'"code": %d' % status in answer

    run(check())


def test_slow_heads_end(lab):
    async def check():
        async with lab.run_router(head_seconds=0.2):
            async with lab.connect() as (reader, writer):
                writer.write(b"GET / HT")
                assert b"HTTP/1.1 408 " in await reader.read()
            async with lab.connect() as (reader, _writer):
                assert await reader.read() == b""

    run(check())


def test_large_bodies_pass_both_ways(lab):
    content = os.urandom(3_000_000)

    async def serve(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        received = b""
        while size := int(await reader.readline(), 16):
            received += await reader.readexactly(size)
            await reader.readline()
        assert received == content
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n" + content)
        await writer.drain()

    async def check():
        async with lab.run_router(), run_program(serve) as port, lab.connect() as (reader, writer):
            writer.write(f"POST / HTTP/1.1\r\nHost: {make_host(port)}\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
            for start in range(0, len(content), 100_000):
                writer.write(b"%x\r\n%b\r\n" % (100_000, content[start : start + 100_000]))
            writer.write(b"0\r\n\r\n")
            await reader.readuntil(b"\r\n\r\n")
            received = b""
            while size := int(await reader.readline(), 16):
                received += await reader.readexactly(size)
                await reader.readline()
            assert received == content

    run(check())


def test_early_answer_reaches_a_client_that_still_sends(lab):
    async def serve(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\n\r\nno")
        await writer.drain()

    async def check():
        async with lab.run_router(), run_program(serve) as port:
            status, body = await lab.call(host=make_host(port), method="POST", body=bytes(3_000_000))
            assert (status, body) == (413, b"no")

    run(check())


@pytest.mark.parametrize("is_accepted", [True, False])
def test_websocket_upgrade(lab, is_accepted):
    async def serve(reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        assert b"Connection: Upgrade" in head
        assert b"Upgrade: websocket" in head
        if not is_accepted:
            writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
            return
        writer.write(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nfirst")
        while data := await reader.read(1000):
            writer.write(data.upper())

    async def check():
        headers = {"Connection": "keep-alive, Upgrade", "Upgrade": "websocket"}
        async with lab.run_router(), run_program(serve) as port, lab.connect() as (reader, writer):
            writer.write(build_request(host=make_host(port), headers=headers))
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 101 " if is_accepted else b"HTTP/1.1 403 ")
            if is_accepted:
                assert await reader.readexactly(5) == b"first"
                for _turn in range(3):
                    writer.write(b"hello")
                    assert await reader.readexactly(5) == b"HELLO"
                writer.write_eof()
            assert await reader.read() == b""

    run(check())


@pytest.mark.parametrize(
    "answer",
    [
        b"nonsense\r\n\r\n",
        b"",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 200_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"HTTP/1.1 000 OK\r\n\r\n",
    ],
)
def test_wrong_answers_of_programs(lab, answer):
    async def serve(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()

    async def check():
        async with lab.run_router(), run_program(serve) as port:
            status, body = await lab.call(host=make_host(port))
            assert (status, body["message"]) == (502, "The sandbox does not respond")

    run(check())


def test_length_of_an_answer_is_unambiguous(lab):
    async def serve(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\nmore"
        )
        await writer.drain()

    async def check():
        async with lab.run_router(), run_program(serve) as port:
            answer = await lab.send(build_request(host=make_host(port)))
            assert b"content-length" not in answer.lower()
            assert answer.endswith(b"\r\n\r\n2\r\nok\r\n0\r\n\r\n")

    run(check())


def test_answer_to_head_has_no_body(lab):
    async def check():
        async with lab.run_router(), run_program(answer_with_request) as port:
            for host in (make_host(port), make_host(port, "unknown")):
                answer = await lab.send(build_request(host=host, method="HEAD"))
                assert answer.endswith(b"\r\n\r\n")
                assert answer.count(b"\r\n\r\n") == 1

    run(check())


def test_stream_ends_when_the_sandbox_is_paused(lab):
    async def check():
        async with lab.run_router(), run_program(serve_stream) as port, lab.connect() as (reader, writer):
            writer.write(build_request(host=make_host(port)))
            await reader.readuntil(b"hello\r\n")
            lab.rows[SANDBOX_ID] = build_route(state="paused")
            await lab.end_guests()
            assert await reader.read() == b"", "without the last chunk, so the client notices"
            await asyncio.sleep(CACHE_SECONDS)
            assert (await lab.call(host=make_host(port)))[1]["message"] == "The sandbox was not found"
            lab.rows[SANDBOX_ID] = build_route()
            async with run_program(answer_with_request) as other_port:
                assert (await lab.call(host=make_host(other_port)))[0] == 200

    run(check())


def test_stream_of_a_client_that_leaves_ends(lab):
    ended = asyncio.Event()

    async def serve(reader, writer):
        await serve_stream(reader, writer)
        ended.set()

    async def check():
        async with lab.run_router() as router, run_program(serve) as port:
            async with lab.connect() as (reader, writer):
                writer.write(build_request(host=make_host(port)))
                await reader.readuntil(b"hello\r\n")
            async with asyncio.timeout(5):
                await ended.wait()
            await wait_until(lambda: not router.clients)
            assert router.channels.channels[SANDBOX_ID].users == 0

    run(check())


def test_silent_streams_end(lab):
    async def check():
        async with lab.run_router(idle_seconds=0.3), run_program(serve_stream) as port:
            assert (await lab.send(build_request(host=make_host(port)))).endswith(b"5\r\nhello\r\n")

    run(check())


def test_streams_run_side_by_side_up_to_a_limit(lab):
    async def check():
        lab.rows[OTHER_SANDBOX_ID] = build_route(OTHER_SANDBOX_ID)
        async with lab.run_router(max_streams=128), run_program(serve_stream) as port:
            connections = []
            for sandbox_id in (SANDBOX_ID, OTHER_SANDBOX_ID):
                for _number in range(96):
                    reader, writer = await asyncio.open_connection(*lab.address)
                    writer.write(build_request(host=make_host(port, sandbox_id)))
                    connections.append((reader, writer))
            for reader, _writer in connections:
                assert (await reader.readuntil(b"hello\r\n")).startswith(b"HTTP/1.1 200 ")
            assert lab.events.count("channel") == 2
            assert lab.events.count("identity") == 2
            status, body = await lab.call(host=make_host(port))
            assert (status, body["code"]) == (429, 429)
            for _reader, writer in connections:
                writer.close()

    run(check())


def test_requests_without_token_leave_streams_to_the_owner(lab):
    async def check():
        async with lab.run_router(max_streams=16) as router, run_program(serve_stream) as port:
            lab.ports[49983] = port
            host, connections = make_host(49983), []
            for headers in [{}, {"X-Access-Token": "wrong"}]:
                reader, writer = await asyncio.open_connection(*lab.address)
                writer.write(build_request(host=host, headers=headers))
                await reader.readuntil(b"hello\r\n")
                connections.append(writer)
            assert (await lab.call(host=host))[0] == 429, "two of sixteen are for those who are refused"
            for _number in range(10):
                reader, writer = await asyncio.open_connection(*lab.address)
                writer.write(build_request(host=make_host(port)))
                await reader.readuntil(b"hello\r\n")
                connections.append(writer)
            assert (await lab.call(host=make_host(port)))[0] == 429, "twelve are public"
            for _number in range(4):
                reader, writer = await asyncio.open_connection(*lab.address)
                writer.write(build_request(host=host, headers={"X-Access-Token": TOKEN}))
                await reader.readuntil(b"hello\r\n")
                connections.append(writer)
            assert (await lab.call(host=host, headers={"X-Access-Token": TOKEN}))[0] == 429, "all are in use"
            for writer in connections:
                writer.close()
            channel = router.channels.channels[SANDBOX_ID]
            await wait_until(lambda: not (channel.users or channel.public_users or channel.refused_users))

    run(check())
