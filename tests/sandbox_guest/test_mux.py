"""The multiplexer of byte streams over one channel, with both ends in one process."""

import asyncio
import contextlib
import os
import resource

import pytest

from tests.support.mux_ends import (
    build_hello,
    connect_muxes,
    echo,
    exchange,
    open_socketpair,
    read_all,
    run,
    run_muxes,
    wait_until,
)
from worker.sandbox_guest.frames import (
    DATA,
    HEADER,
    HELLO,
    MARKER,
    NO_SESSION,
    OPEN,
    OPENED,
    PROTOCOL_VERSION,
    RESET,
    build_frame,
)
from worker.sandbox_guest.mux import ChannelLost, Mux
from worker.sandbox_guest.mux_stream import (
    GRANT_BYTES,
    MAX_WIDE_STREAMS,
    PAYLOAD_BYTES,
    WIDE_WINDOW_BYTES,
    WINDOW_BYTES,
    StreamReset,
)


@pytest.fixture(autouse=True)
def file_limit():
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limits[1], limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_stream_carries_markers_as_data():
    async def check():
        async with connect_muxes(echo) as (host, _):
            data = (MARKER + b"between" + build_hello()) * 2000 + MARKER[:20]
            assert await exchange(await host.open_stream(80), data) == data

    run(check())


def test_full_frames_fill_the_writes_of_a_port():
    async def check():
        sizes = []

        async def accept(stream):
            stream.mux.confirm_stream(stream)
            await wait_until(lambda: not stream.mux.control)
            write, guest.writer.write = guest.writer.write, lambda data: (sizes.append(len(data)), write(data))
            stream.write(bytes(8 * PAYLOAD_BYTES))
            await wait_until(lambda: not stream.unsent_bytes)
            stream.write_eof()
            await stream.wait_closed()

        async with connect_muxes(accept) as (host, guest):
            stream = await host.open_stream(80)
            assert len(await read_all(stream)) == 8 * PAYLOAD_BYTES
        assert sizes == [256 * 1024, 256 * 1024, HEADER.size]

    run(check())


# --- sessions


def test_guest_finds_host_after_garbage_and_a_half_frame_of_an_earlier_host():
    async def check():
        host_channel, guest_channel = await open_socketpair()
        first_end = host_channel[1]
        first_end.write(os.urandom(5000) + build_hello(b"a" * 16) + build_frame(OPEN, 1, b"\0\x50"))
        first_end.write(HEADER.pack(DATA, 1, 50000) + b"half")
        guest = Mux(*guest_channel, echo)
        async with run_muxes(guest):
            await wait_until(lambda: 1 in guest.streams)
            host = Mux(*host_channel)
            async with run_muxes(host):
                assert await exchange(await host.open_stream(80), b"after") == b"after"
                assert guest.session_id == host.session_id != b"a" * 16

    run(check())


def test_host_ignores_frames_of_an_earlier_session():
    async def check():
        host_channel, guest_channel = await open_socketpair()
        guest_channel[1].write(HEADER.pack(DATA, 3, 9999) + b"left over" + build_hello(b"a" * 16))
        guest_channel[1].write(build_frame(DATA, 1, b"old bytes"))
        host, guest = Mux(*host_channel), Mux(*guest_channel, echo)
        async with run_muxes(host, guest):
            assert await exchange(await host.open_stream(80), b"new") == b"new"

    run(check())


def test_host_reads_garbage_in_a_session_and_starts_another_one():
    async def check():
        async with connect_muxes(echo) as (host, guest):
            stream, session_id = await host.open_stream(80), host.session_id
            guest.writer.write(b"\x44" * 100)
            with pytest.raises(StreamReset):
                await stream.read()
            assert await exchange(await host.open_stream(80), b"again") == b"again"
            assert host.session_id != session_id

    run(check())


class KeepOpen:
    """A writer that is not closed with its mux, as a descriptor that survives the process."""

    def __init__(self, writer):
        self.write, self.drain = writer.write, writer.drain

    def close(self):
        pass


def test_host_sends_lost_hello_again(monkeypatch):
    monkeypatch.setattr("worker.sandbox_guest.mux.HELLO_RETRY_SECONDS", 0.02)

    async def check():
        host_channel, (guest_reader, guest_writer) = await open_socketpair()
        host = Mux(*host_channel)
        async with run_muxes(host):
            for _attempt in range(3):
                await guest_reader.readexactly(len(build_hello()))
            guest = Mux(guest_reader, guest_writer, echo)
            guest.is_hello_due = False
            async with run_muxes(guest):
                assert await exchange(await host.open_stream(80), b"late") == b"late"

    run(check())


def test_restarted_guest_resets_streams_of_the_host():
    async def check():
        host_channel, (guest_reader, guest_writer) = await open_socketpair()
        host = Mux(*host_channel)
        async with run_muxes(host):
            async with run_muxes(Mux(guest_reader, KeepOpen(guest_writer), echo)):
                stream = await host.open_stream(80)
            guest_writer.write(HEADER.pack(DATA, stream.id, 1000) + b"cut short")
            async with run_muxes(Mux(guest_reader, KeepOpen(guest_writer), echo)):
                with pytest.raises(StreamReset):
                    await read_all(stream)
                assert await exchange(await host.open_stream(80), b"again") == b"again"

    run(check())


def test_lost_channel_resets_streams_and_refuses_new_ones():
    async def check():
        async with connect_muxes(echo) as (host, guest):
            stream = await host.open_stream(80)
            guest.writer.transport.abort()
            with pytest.raises(StreamReset):
                await stream.read()
            with pytest.raises(ChannelLost):
                await host.open_stream(80)
            assert host.streams == {}

    run(check())


def test_cancelled_mux_leaves_no_task():
    async def check():
        before = asyncio.all_tasks()
        async with connect_muxes(echo) as (host, _):
            for _ in range(5):
                await host.open_stream(80)
            assert len(asyncio.all_tasks() - before) > 5
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == before

    run(check())


def test_other_version_is_not_established_and_not_answered_without_end():
    async def check():
        host_channel, peer = await open_socketpair()
        host = Mux(*host_channel)
        async with run_muxes(host):
            markers = 0
            peer[1].write(MARKER + build_frame(HELLO, PROTOCOL_VERSION + 1, NO_SESSION))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.5):
                    while chunk := await peer[0].read(9999):
                        markers += chunk.count(MARKER)
                        peer[1].write(MARKER + build_frame(HELLO, PROTOCOL_VERSION + 1, NO_SESSION))
            assert not host.is_established
            assert 1 <= markers <= 3

    run(check())


# --- streams


def test_thousand_concurrent_streams_are_served():
    async def check():
        async with connect_muxes(echo) as (host, guest):
            streams = await asyncio.gather(*(host.open_stream(80) for _ in range(1000)))
            assert len(guest.streams) == 1000
            texts = [f"stream {number} ".encode() * 50 for number in range(1000)]
            answers = await asyncio.gather(*map(exchange, streams, texts))
            assert answers == texts
            assert host.streams == {}
            await wait_until(lambda: not guest.streams)

    run(check())


def test_slow_reader_blocks_no_other_stream():
    async def check():
        async with connect_muxes(echo) as (host, _):
            slow, fast = await host.open_stream(80), await host.open_stream(80)
            data = os.urandom(5 * WINDOW_BYTES)
            slow.write(data)
            assert await exchange(fast, data) == data
            assert slow.received_bytes == WINDOW_BYTES
            assert slow.unsent_bytes > 0
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(slow.drain(), 0.05)
            slow.write_eof()
            assert await read_all(slow) == data

    run(check())


@pytest.mark.parametrize(
    ("streams", "window"), [(MAX_WIDE_STREAMS, WIDE_WINDOW_BYTES), (MAX_WIDE_STREAMS + 1, WINDOW_BYTES)]
)
def test_window_is_widened_after_first_grant_while_streams_are_few(streams, window):
    async def send_much(stream):
        stream.mux.confirm_stream(stream)
        stream.write(bytes(5 * WINDOW_BYTES))
        await stream.wait_closed()

    async def check():
        async with connect_muxes(send_much) as (host, _):
            stream, *_ = [await host.open_stream(80) for _ in range(streams)]
            size = 0
            while size < GRANT_BYTES:
                size += len(await stream.read())
            await wait_until(lambda: stream.received_bytes + stream.ungranted_bytes >= window)
            await asyncio.sleep(0.05)
            assert stream.received_bytes + stream.ungranted_bytes == window

    run(check())


def test_sender_that_ignores_the_window_is_reset():
    async def check():
        host_channel, peer = await open_socketpair()
        host = Mux(*host_channel)
        async with run_muxes(host):
            peer[1].write(await peer[0].readexactly(len(build_hello())))
            opening = asyncio.create_task(host.open_stream(80))
            await peer[0].readexactly(HEADER.size + 2)
            peer[1].write(build_frame(OPENED, 1))
            stream = await opening
            peer[1].write(build_frame(DATA, 1, bytes(65536)) * (WINDOW_BYTES // 65536 + 1))
            assert await peer[0].readexactly(HEADER.size + 8) == build_frame(RESET, 1, b"protocol")
            with pytest.raises(StreamReset, match="protocol"):
                await stream.read()

    run(check())


def test_half_closed_stream_carries_data_the_other_way():
    async def answer_after_end(stream):
        stream.mux.confirm_stream(stream)
        size = len(await read_all(stream))
        stream.write(str(size).encode())
        stream.write_eof()
        await stream.wait_closed()

    async def check():
        async with connect_muxes(answer_after_end) as (host, _):
            assert await exchange(await host.open_stream(80), bytes(100000)) == b"100000"

    run(check())


def test_reset_reaches_the_writer_at_the_other_end():
    outcomes = []

    async def write_without_end(stream):
        stream.mux.confirm_stream(stream)
        try:
            while True:
                stream.write(bytes(1000))
                await stream.drain()
        except StreamReset as error:
            outcomes.append(error.reason)

    async def check():
        async with connect_muxes(write_without_end) as (host, guest):
            stream = await host.open_stream(80)
            await stream.read()
            stream.reset()
            await wait_until(lambda: outcomes)
            assert (outcomes, guest.streams, host.streams) == (["closed"], {}, {})

    run(check())


def test_cancelled_open_resets_the_stream():
    cancelled = []

    async def never_confirm(stream):
        try:
            await stream.wait_closed()
        finally:
            cancelled.append(stream.reset_reason)

    async def check():
        async with connect_muxes(never_confirm) as (host, guest):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(host.open_stream(80), 0.1)
            await wait_until(lambda: cancelled and not guest.streams)
            assert (cancelled, host.streams) == (["closed"], {})

    run(check())
