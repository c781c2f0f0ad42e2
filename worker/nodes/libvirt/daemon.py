"""The processes of a local hypervisor."""

import contextlib
import os
import signal
import time
from pathlib import Path


def find_processes(directory: Path, guests=True) -> set[int]:
    """The daemon and its guests: processes from its pid files that do see this directory as /run/libvirt, so that a
    number that went to another process is left alone."""
    found = set()
    run = directory / "run"
    for file in (run / "libvirtd.pid", *(run.glob("qemu/*.pid") if guests else ())):
        with contextlib.suppress(OSError, ValueError):
            pid = int(file.read_text())
            if os.path.samestat(os.stat(f"/proc/{pid}/root/run/libvirt"), run.stat()):
                found.add(pid)
    return found


def terminate(pids: set[int], timeout=10.0):
    signal_all(pids, signal.SIGTERM)
    limit = time.monotonic() + timeout
    while any(os.path.exists(f"/proc/{pid}/root") for pid in pids):  # a dead process that nobody waits for has none
        if time.monotonic() > limit:
            return signal_all(pids, signal.SIGKILL)
        time.sleep(0.02)


def signal_all(pids: set[int], what: signal.Signals):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, what)
