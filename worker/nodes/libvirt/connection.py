"""The lines to one libvirt daemon: opened when needed, noticed when lost, never shared with another process.

Each call has a line to itself. libvirt's client library crashes the whole process when a second thread comes along on a
line where one waits (CVE-2024-4418, mended in 10.4; Debian 12 has 9.0), and its own signs of life count as a second
thread. So they are asked for only on lines that wait for events, and silence is noticed by the callers' deadlines.
"""

import contextlib
import os
import threading

import libvirt
import structlog

from worker.nodes.base import Unreachable

log = structlog.get_logger()

KEEPALIVE_INTERVAL_SECONDS, MAX_KEEPALIVES_MISSED = 3, 3
"""Seconds between signs of life on a line that waits for events, and how many may be missing until it is lost."""

MAX_IDLE_CONNECTIONS = 8
"""Lines that wait for their next call."""

libvirt.registerErrorHandler(lambda _, error: None, None)  # it would print to stderr what it raises anyway

leaked_from_parent: list = []
"""Lines of a parent process. Letting go of one would close it under the parent, so they are kept."""

event_loop_pid: int | None = None
"""The process that runs libvirt's event loop. Its children cannot: the loop does not survive a fork, and libvirt takes
no second one. They call as everybody does, but hear no events and do not answer the daemon's signs of life. (A fork
at the very moment when another thread is inside libvirt may leave the child with a lock that nobody opens; its calls
then end at their deadlines. Processes that fork should do so before they use libvirt.)"""

event_loop_lock = threading.Lock()


class ConnectionPool:
    def __init__(self, uri: str):
        self.uri = with_batch_mode(uri)
        self.pid = os.getpid()
        self.free: list[libvirt.virConnect] = []

    @contextlib.contextmanager
    def one(self):
        """A live line that nobody else uses. Opening one may block as long as the network likes: callers bring a
        deadline, and one attempt that hangs does not keep a later one from getting through."""
        line, free = self.take() or self.open(), self.free
        try:
            yield line
        finally:
            if free is self.free and len(free) < MAX_IDLE_CONNECTIONS and is_alive(line):
                free.append(line)

    def take(self) -> libvirt.virConnect | None:
        if self.pid != os.getpid():
            leaked_from_parent.append(self.free)
            self.pid, self.free = os.getpid(), []
        with contextlib.suppress(IndexError):
            while not is_alive(line := self.free.pop()):
                pass
            return line
        return None

    def open(self) -> libvirt.virConnect:
        start_event_loop()
        try:
            line = libvirt.open(self.uri)
        except libvirt.libvirtError as error:
            raise Unreachable("The hypervisor cannot be reached.", f"{self.uri}: {error}") from error
        log.debug("libvirt_connected", uri=self.uri)
        return line

    def close(self):
        """Lets go of the lines that wait; one in use is let go of when its call ends."""
        if self.pid == os.getpid():
            free, self.free = self.free, []
            for line in free:
                close_in_background(line)


def close_in_background(line: libvirt.virConnect):
    """Says goodbye, which may take as long as the node is silent: nobody waits for it."""
    threading.Thread(target=line.close, name="libvirt goodbye", daemon=True).start()


def is_alive(line: libvirt.virConnect) -> bool:
    """Where the event loop runs it notices a loss by itself; elsewhere the daemon may have hung up on a quiet line."""
    try:
        return bool(line.isAlive() if runs_event_loop() else line.getLibVersion())
    except libvirt.libvirtError:
        return False


def runs_event_loop() -> bool:
    return event_loop_pid == os.getpid()


def with_batch_mode(uri: str) -> str:
    """ssh must never ask a question on somebody's terminal."""
    scheme = uri.partition(":")[0]
    if not scheme.endswith("+ssh") or "no_tty=" in uri:
        return uri
    return f"{uri}{'&' if '?' in uri else '?'}no_tty=1"


def start_event_loop():
    """One thread of this process answers the daemon's signs of life and delivers events. It has to be there before the
    first line is opened."""
    global event_loop_pid
    with event_loop_lock:
        if event_loop_pid is None:
            libvirt.virEventRegisterDefaultImpl()
            threading.Thread(target=run_event_loop, name="libvirt events", daemon=True).start()
            event_loop_pid = os.getpid()


def run_event_loop():
    while True:
        libvirt.virEventRunDefaultImpl()


def renew_lock():
    """A lock that some thread of the parent held would never be released in the child."""
    global event_loop_lock
    event_loop_lock = threading.Lock()


os.register_at_fork(after_in_child=renew_lock)
