"""The line to one libvirt daemon: opened when needed, noticed when lost, never shared with another process."""

import os
import threading

import libvirt
import structlog

log = structlog.get_logger()

PING_EVERY, PINGS_MISSED = 3, 3
"""Seconds between signs of life, and how many may be missing until the line counts as lost."""

libvirt.registerErrorHandler(lambda _, error: None, None)  # it would print to stderr what it raises anyway

inherited: list = []
"""Connections of a parent process. Letting go of one would close the line under the parent, so they are kept."""

loops: dict[int, threading.Thread] = {}
"""The thread of libvirt's event loop, by process."""

LOOK = 250
"""Milliseconds after which the loop of a child looks for what is new. The pipe by which libvirt wakes a loop is the
parent's too, and either of them may find it empty."""


class Connection:
    def __init__(self, uri: str):
        self.uri = with_batch_mode(uri)
        self.line: libvirt.virConnect | None = None
        self.pid = os.getpid()

    def get(self) -> libvirt.virConnect:
        """A live connection. Opening may block as long as the network likes: callers bring a deadline. Several may try
        at once, so that one attempt that hangs does not keep a later one from getting through."""
        if self.pid != os.getpid():
            inherited.append(self.line)
            self.line, self.pid = None, os.getpid()
        line = self.line
        if line is None or not line.isAlive():
            run_events()
            line = libvirt.open(self.uri)
            line.setKeepAlive(PING_EVERY, PINGS_MISSED)
            self.line = line
            log.info("libvirt_connected", uri=self.uri)
        return line

    def close(self):
        """Lets go of the line; it is closed when the last call that uses it has ended."""
        if self.pid == os.getpid():
            self.line = None


def with_batch_mode(uri: str) -> str:
    """ssh must never ask a question on somebody's terminal."""
    scheme = uri.partition(":")[0]
    if not scheme.endswith("+ssh") or "no_tty=" in uri:
        return uri
    return f"{uri}{'&' if '?' in uri else '?'}no_tty=1"


def run_events():
    """One thread of this process answers the daemon's signs of life and delivers events. It has to be there before the
    first connection is made."""
    thread = threading.Thread(target=loop, name="libvirt events", daemon=True)
    if loops.setdefault(os.getpid(), thread) is not thread:
        return
    libvirt.virEventRegisterDefaultImpl()
    if len(loops) > 1:
        leave_to_parent()
    thread.start()


def loop():
    while True:
        libvirt.virEventRunDefaultImpl()


def leave_to_parent():
    """libvirt's list of what to listen to was copied by the fork; hearing for the parent would steal what is meant for
    it. The first entry is the pipe by which libvirt wakes the loop."""
    with open(os.devnull) as anything:
        last = libvirt.virEventAddHandle(anything.fileno(), 0, ignore, None)
        for number in range(2, last + 1):
            libvirt.virEventRemoveHandle(number)
    for number in range(1, libvirt.virEventAddTimeout(LOOK, ignore, None)):
        libvirt.virEventRemoveTimeout(number)


def ignore(*_):
    """An event that only wakes the loop."""
