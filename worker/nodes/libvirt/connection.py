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

home: int | None = None
"""The process that runs libvirt's event loop. Its children cannot: the loop does not survive a fork, and libvirt takes
no second one. They call as everybody does, but hear no events and do not answer the daemon's signs of life."""

lock = threading.Lock()


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
        if line is None or not alive(line):
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


def alive(line: libvirt.virConnect) -> bool:
    """Where the event loop runs it notices a loss by itself; elsewhere the daemon may have hung up on a quiet line."""
    if home == os.getpid():
        return bool(line.isAlive())
    try:
        return bool(line.getLibVersion())
    except libvirt.libvirtError:
        return False


def hears_events() -> bool:
    return home == os.getpid()


def with_batch_mode(uri: str) -> str:
    """ssh must never ask a question on somebody's terminal."""
    scheme = uri.partition(":")[0]
    if not scheme.endswith("+ssh") or "no_tty=" in uri:
        return uri
    return f"{uri}{'&' if '?' in uri else '?'}no_tty=1"


def run_events():
    """One thread of this process answers the daemon's signs of life and delivers events. It has to be there before the
    first connection is made."""
    global home
    with lock:
        if home is None:
            libvirt.virEventRegisterDefaultImpl()
            threading.Thread(target=loop, name="libvirt events", daemon=True).start()
            home = os.getpid()


def loop():
    while True:
        libvirt.virEventRunDefaultImpl()


def renew_lock():
    """A lock that some thread of the parent held would never be released in the child."""
    global lock
    lock = threading.Lock()


os.register_at_fork(after_in_child=renew_lock)
