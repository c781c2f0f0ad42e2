"""Channels and identities: when they are opened, sent and closed."""

import asyncio
import time

from tests.sandbox_guest.daemon import run_daemon
from tests.sandbox_router.lab import (
    OTHER_SANDBOX_ID,
    SANDBOX_ID,
    TOKEN,
    answer_with_request,
    build_request,
    build_route,
    find_closed_port,
    make_host,
    run_program,
    serve_stream,
    wait_until,
)
from tests.support.mux_ends import run
from worker.sandbox_guest.frames import WINDOW, build_frame
from worker.sandbox_router import channels


def test_identity_is_sent_before_the_first_stream(lab):
    async def check():
        async with lab.run_router(), run_program(answer_with_request) as port:
            await asyncio.gather(*(lab.call(host=make_host(port)) for _number in range(20)))
            assert lab.events == ["channel", "identity", *[port] * 20]
            assert lab.read_identity() == {"access_token": TOKEN, "env": {"A": "1"}}
            assert (lab.root / "etc/hostname").read_text() == f"{SANDBOX_ID}\n"

    run(check())


def test_identity_names_the_host_when_the_name_is_one():
    document = channels.build_identity(build_route(name="web-1"))
    again = channels.build_identity(build_route(name="web-1"))
    assert document["host_name"] == "web-1"
    assert document["machine_id"] == again["machine_id"]
    assert document["entropy"] != again["entropy"]


def test_new_session_gets_the_identity_again(lab):
    async def check():
        async with lab.run_router() as router, run_program(answer_with_request) as port:
            await lab.call(host=make_host(port))
            mux = router.channels.channels[SANDBOX_ID].mux
            mux.start_session()
            assert (await lab.call(host=make_host(port)))[0] == 200
            assert lab.events == ["channel", "identity", port, "identity", port]
        async with lab.run_router(), run_program(answer_with_request) as port:
            assert (await lab.call(host=make_host(port)))[0] == 200
            assert lab.events[-3:] == ["channel", "identity", port], "a new router opens a new channel"

    run(check())


def test_daemon_answers_with_the_token_of_the_identity(lab):
    async def check(daemon_port):
        lab.ports[49983] = daemon_port
        async with lab.run_router():
            host = make_host(49983)
            assert (await lab.call("/health", host=host))[0] == 204
            assert (await lab.call("/metrics", host=host))[0] == 401
            assert (await lab.call("/metrics", host=host, headers={"X-Access-Token": TOKEN}))[0] == 200

    (lab.root / "run/sandbox").mkdir(parents=True)
    with run_daemon(lab.root / "run/sandbox/identity.json") as daemon_port:
        run(check(daemon_port))


def test_daemon_that_starts_is_waited_for(lab, monkeypatch):
    async def check():
        lab.ports[49983] = find_closed_port()
        async with lab.run_router():
            call = asyncio.create_task(lab.call(host=make_host(49983)))
            await asyncio.sleep(0.4)
            async with run_program(answer_with_request) as port:
                lab.ports[49983] = port
                assert (await call)[0] == 200
            monkeypatch.setattr(channels, "DAEMON_START_SECONDS", 0)
            assert (await lab.call(host=make_host(49983)))[1]["port"] == 49983

    run(check())


def test_unused_channel_is_closed(lab):
    async def check():
        async with lab.run_router() as router, run_program(serve_stream) as port, lab.connect() as (reader, writer):
            writer.write(build_request(host=make_host(port)))
            await reader.readuntil(b"hello\r\n")
            router.channels.close_idle(0)
            assert SANDBOX_ID in router.channels.channels, "it has a stream"
            writer.close()
            await wait_until(lambda: not router.channels.channels[SANDBOX_ID].users)
            router.channels.close_idle(60)
            assert SANDBOX_ID in router.channels.channels
            router.channels.close_idle(0)
            assert router.channels.channels == {}
            await wait_until(lambda: lab.guests[0].done())
            async with run_program(answer_with_request) as other_port:
                assert (await lab.call(host=make_host(other_port)))[0] == 200

    run(check())


def test_flooding_guest_does_not_stop_others(lab):
    lab.rows[OTHER_SANDBOX_ID] = build_route(OTHER_SANDBOX_ID)
    frames = build_frame(WINDOW, 77, bytes(4)) * 20_000

    async def flood(stream):
        """Fill the channel with frames of a stream that does not exist."""
        stream.mux.writer.write(frames)
        while True:
            await stream.mux.writer.drain()
            stream.mux.writer.write(frames)

    async def check():
        async with lab.run_router(), run_program(answer_with_request) as port:
            accept = lab.accept
            await lab.call(host=make_host(port))
            lab.accept = flood
            flooded_call = asyncio.create_task(lab.call(host=make_host(port, OTHER_SANDBOX_ID)))
            await asyncio.sleep(0.5)
            lab.accept = accept
            for _number in range(10):
                begin = time.monotonic()
                assert (await lab.call(host=make_host(port)))[0] == 200
                assert time.monotonic() - begin < 2
            assert not flooded_call.done()
            flooded_call.cancel()

    run(check())


def test_guest_that_does_not_answer_ends_with_a_sentence(lab, monkeypatch):
    async def ignore(_stream):
        await asyncio.sleep(60)

    async def check():
        monkeypatch.setattr(channels, "OPEN_STREAM_SECONDS", 0.3)
        monkeypatch.setattr(channels, "IDENTITY_SECONDS", 0.3)
        async with lab.run_router():
            monkeypatch.setattr(lab, "accept", ignore)
            status, body = await lab.call(host=make_host(80))
            assert (status, body["message"]) == (502, "The sandbox does not respond")

    run(check())


def test_channel_on_which_no_guest_answers_is_opened_again(lab, monkeypatch):
    """QEMU 7.2 passes nothing on to a channel that is opened after one that was closed while the guest was sending."""
    start_guest, silent_ends = lab.start_guest, []

    async def start_silent_guest(guest_end):
        monkeypatch.setattr(lab, "start_guest", start_guest)
        silent_ends.append(guest_end)

    async def check():
        monkeypatch.setattr(channels, "SILENT_CHANNEL_SECONDS", 0.3)
        monkeypatch.setattr(lab, "start_guest", start_silent_guest)
        async with lab.run_router(), run_program(answer_with_request) as port:
            assert (await lab.call(host=make_host(port)))[0] == 200
            assert lab.events == ["channel", "identity", port]
            silent_ends[0].setblocking(True)
            assert b"".join(iter(lambda: silent_ends[0].recv(4096), b"")), "it ended after a HELLO"

    run(check())
