"""The connections to one libvirt daemon: opened on demand, checked before use, never shared with another process.

Each call has a connection to itself. libvirt's client library crashes the whole process when a second thread calls on a
connection where one waits (CVE-2024-4418, fixed in 10.4; Debian 12 has 9.0), and its own keepalive counts as a second
thread. So keepalive is used only on connections that wait for events; elsewhere the callers' deadlines detect a lost
node.
"""

import atexit
import contextlib
import os
import threading
import time
import weakref
from collections.abc import Iterator
from typing import Any

import libvirt
import structlog

from panel.core.messages import message
from worker.nodes.base import Unreachable

log = structlog.get_logger()

KEEPALIVE_INTERVAL_SECONDS, MAX_KEEPALIVES_MISSED = 3, 3
"""Seconds between keepalives on a connection that waits for events, and how many may be missed until it counts as
lost."""

MAX_IDLE_CONNECTIONS = 8
"""Idle connections that are kept for the next calls."""

EXIT_TIMEOUT_SECONDS = 1
"""How long a process that ends waits for its connections to close."""

libvirt.registerErrorHandler(lambda _, error: None, None)  # it would print to stderr what it raises anyway

leaked_from_parent: list = []
"""Connections of a parent process. Freeing one would close it for the parent, so they are kept for ever."""

event_loop_pid: int | None = None
"""The process that runs libvirt's event loop. A forked child cannot run it: the loop does not survive a fork, and
libvirt accepts no second one. Children can make calls, but get no events and do not answer the daemon's keepalives. (A
fork at the moment when another thread is inside libvirt may leave the child with a lock that is never released; its
calls then end at their deadlines. Processes that fork should do so before they use libvirt.)"""

event_loop_lock = threading.Lock()


class ConnectionPool:
    def __init__(self, uri: str) -> None:
        self.uri = with_batch_mode(uri)
        self.pid = os.getpid()
        self.idle: list[libvirt.virConnect] = []
        self.idle_of_channels: list[libvirt.virConnect] = []
        self.newest_channels: dict[str, Any] = {}
        """Machine → what copies the bytes of its newest open channel."""
        pools.add(self)

    @contextlib.contextmanager
    def borrow(self) -> Iterator[libvirt.virConnect]:
        """Yield a live connection that no other thread uses. Opening one may block for as long as the network takes:
        callers have a deadline, and an attempt that hangs does not block later ones."""
        connection, lender = self.pop_idle() or self.open(), self.idle
        try:
            yield connection
        finally:
            if lender is self.idle and len(lender) < MAX_IDLE_CONNECTIONS and is_alive(connection):
                lender.append(connection)

    def pop_idle(self) -> libvirt.virConnect | None:
        self.forget_connections_of_parent()
        return pop_alive(self.idle)

    def forget_connections_of_parent(self) -> None:
        if self.pid != os.getpid():
            leaked_from_parent.append((self.idle, self.idle_of_channels))
            self.pid, self.idle, self.idle_of_channels, self.newest_channels = os.getpid(), [], [], {}

    def take_for_channel(self) -> libvirt.virConnect:
        """Return a connection for a stream with a callback, to be returned by `release_from_channel`.

        libvirt-python (12.8) never frees the callback of a stream, nor the stream, which keeps its connection open. So
        these connections are used again instead of closed; there are as many as channels were open at once.
        """
        self.forget_connections_of_parent()
        return pop_alive(self.idle_of_channels) or self.open()

    def release_from_channel(self, connection: libvirt.virConnect) -> None:
        self.idle_of_channels.append(connection)

    def open(self) -> libvirt.virConnect:
        start_event_loop()
        try:
            connection = libvirt.open(self.uri)
        except libvirt.libvirtError as error:
            raise Unreachable(message("The hypervisor cannot be reached."), f"{self.uri}: {error}") from error
        log.debug("libvirt_connected", uri=self.uri)
        return connection

    def close(self) -> list[threading.Thread]:
        """Close the idle connections; one in use is closed when its call ends. Returns the threads that close them."""
        if self.pid != os.getpid():
            return []
        idle, self.idle, self.idle_of_channels = [*self.idle, *self.idle_of_channels], [], []
        return [close_in_background(connection) for connection in idle]


def pop_alive(idle: list[libvirt.virConnect]) -> libvirt.virConnect | None:
    """Remove connections from the list until one is alive, and return it."""
    with contextlib.suppress(IndexError):
        while not is_alive(connection := idle.pop()):
            pass
        return connection
    return None


pools: weakref.WeakSet[ConnectionPool] = weakref.WeakSet()


def close_in_background(connection: libvirt.virConnect) -> threading.Thread:
    """Close in a separate thread, because it may block for as long as the node does not answer."""
    thread = threading.Thread(target=connection.close, name="libvirt close", daemon=True)
    thread.start()
    return thread


@atexit.register
def close_pools() -> None:
    """Close the idle connections before the interpreter unloads libvirt, which then prints a traceback for each."""
    deadline = time.monotonic() + EXIT_TIMEOUT_SECONDS
    for thread in [thread for pool in pools for thread in pool.close()]:
        thread.join(max(0, deadline - time.monotonic()))


def is_alive(connection: libvirt.virConnect) -> bool:
    """Return whether the connection works. With the event loop libvirt detects a loss itself; elsewhere a call is
    needed, because the daemon may have closed an idle connection."""
    try:
        return bool(connection.isAlive() if has_event_loop() else connection.getLibVersion())
    except libvirt.libvirtError:
        return False


def has_event_loop() -> bool:
    return event_loop_pid == os.getpid()


def with_batch_mode(uri: str) -> str:
    """Return the URI with ssh's prompts turned off: there is no terminal to answer them."""
    scheme = uri.partition(":")[0]
    if not scheme.endswith("+ssh") or "no_tty=" in uri:
        return uri
    return f"{uri}{'&' if '?' in uri else '?'}no_tty=1"


def start_event_loop() -> None:
    """Start the thread that answers the daemon's keepalives and delivers events. Must run before the first connection
    opens."""
    global event_loop_pid
    with event_loop_lock:
        if event_loop_pid is None:
            libvirt.virEventRegisterDefaultImpl()
            threading.Thread(target=run_event_loop, name="libvirt events", daemon=True).start()
            event_loop_pid = os.getpid()


def run_event_loop() -> None:
    while True:
        libvirt.virEventRunDefaultImpl()


def renew_lock() -> None:
    """Replace the lock in a forked child: a thread of the parent may have locked it, and nobody would release it
    here."""
    global event_loop_lock
    event_loop_lock = threading.Lock()


os.register_at_fork(after_in_child=renew_lock)
