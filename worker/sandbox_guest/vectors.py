"""Lists of buffers that are written at once."""

from collections import deque

MAX_BUFFERS = 512
"""Buffers of one `writev`. The kernel takes twice as many."""


def remove_written(buffers: deque[memoryview], written: int) -> None:
    """Remove the first bytes, which were written: a call may write less than it was given."""
    while buffers and written >= len(buffers[0]):
        written -= len(buffers.popleft())
    if written:
        buffers[0] = buffers[0][written:]
