"""The frames of the channel, cut and damaged anywhere."""

import contextlib

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.mux_ends import build_hello
from worker.sandbox_guest.frames import (
    DATA,
    HEADER,
    HELLO,
    MARKER,
    OPEN,
    PROTOCOL_VERSION,
    ChannelParser,
    ProtocolError,
    build_frame,
    split_payload,
)


def collect_frames(chunks):
    """Return the frames of a byte sequence, with the pieces of each DATA frame joined."""
    frames = []

    def add(kind, stream_id, payload):
        if kind == DATA and frames and frames[-1][:2] == (DATA, stream_id):
            payload = frames.pop()[2] + payload
        frames.append((kind, stream_id, payload))

    parser = ChannelParser(add)
    for chunk in chunks:
        with contextlib.suppress(ProtocolError):
            parser.feed(chunk)
    return frames


def cut(data, sizes):
    chunks = []
    for size in sizes:
        chunks.append(data[:size])
        data = data[size:]
    return [*chunks, data]


SIZES = st.lists(st.integers(1, 90), max_size=30)


@given(st.lists(st.binary(min_size=1, max_size=300), max_size=6), SIZES)
@settings(max_examples=60, deadline=None)
def test_frames_cut_anywhere_are_parsed_completely(payloads, sizes):
    data = build_hello() + b"".join(build_frame(DATA, index, payload) for index, payload in enumerate(payloads))
    frames = collect_frames(cut(data, sizes))
    assert frames[0] == (HELLO, PROTOCOL_VERSION, b"0123456789abcdef")
    assert frames[1:] == [(DATA, index, payload) for index, payload in enumerate(payloads)]


@given(st.binary(max_size=200), st.integers(0, 63), SIZES)
@settings(max_examples=60, deadline=None)
def test_marker_is_found_after_garbage_and_half_frames(garbage, marker_length, sizes):
    half_frame = HEADER.pack(DATA, 7, 60000) + MARKER[:marker_length]
    for beginning in (garbage, build_hello(b"f" * 16) + half_frame, build_hello(b"f" * 16) + garbage):
        frames = collect_frames(cut(beginning + build_hello() + build_frame(OPEN, 1, b"\0\x50"), sizes))
        assert frames[-2:] == [(HELLO, PROTOCOL_VERSION, b"0123456789abcdef"), (OPEN, 1, b"\0\x50")]


@given(st.lists(st.sampled_from([MARKER, MARKER[:32], MARKER[32:], MARKER[:63], b"\xe6", b"x"]), max_size=30))
@settings(max_examples=100, deadline=None)
def test_payloads_contain_no_marker(pieces):
    payload = b"".join(pieces)
    split = split_payload(payload)
    assert b"".join(split) == payload
    assert not any(MARKER in piece for piece in split)
    assert MARKER not in b"".join(build_frame(DATA, 0xFFFFFFFF, piece) for piece in split)
