"""Closing of connections that exceed a time limit. One task checks all connections of a process about once a second."""

import asyncio

from panel.server import refusals
from panel.server.connection_limits import BODY_PAUSE_SECONDS, DRAIN_SECONDS, KEEP_ALIVE_SECONDS, WRITE_STALL_SECONDS


async def expire_connections(connections, stopping):
    """Check all connections until cancelled. Those accepted while the process stops are asked to end, too."""
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(1)
        now = loop.time()
        for connection in tuple(connections):
            if stopping.is_set() and not connection.is_stopping:
                connection.shutdown()
            expire(connection, now)


def expire(connection, now):
    """Close the connection, or refuse its request, when a time limit is exceeded."""
    silence = now - connection.last_data_at
    if has_stalled(connection, now):
        connection.transport.abort()
    elif connection.transport.is_closing():
        return
    elif connection.drain_started_at is not None:
        if now - connection.drain_started_at > DRAIN_SECONDS or silence > BODY_PAUSE_SECONDS:
            connection.transport.abort()
    elif connection.head_started_at is not None:
        if now - connection.head_started_at > connection.limits.head_seconds:
            end_late_head(connection)
    elif not connection.body_complete:
        if silence > BODY_PAUSE_SECONDS and not connection.flow.read_paused:
            connection.refuse(refusals.TIMED_OUT)
    elif connection.is_idle() and silence > KEEP_ALIVE_SECONDS:
        connection.transport.close()


def end_late_head(connection):
    """Refuse a request whose head takes too long. A connection without the start of a request is closed."""
    if connection.is_reading_head:
        connection.head_started_at = None
        connection.refuse(refusals.TIMED_OUT)
    else:
        connection.transport.close()


def has_stalled(connection, now):
    """Return whether the client has read none of the unsent bytes for too long."""
    unsent = connection.transport.get_write_buffer_size()
    if not unsent or unsent != connection.unsent_bytes:
        connection.unsent_bytes, connection.stalled_since = unsent, now
    return now - connection.stalled_since > WRITE_STALL_SECONDS
