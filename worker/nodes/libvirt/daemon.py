"""The processes of a local hypervisor."""

import contextlib
import os
import signal
import time
from pathlib import Path


def find_processes(directory: Path, guests: bool = True) -> set[int]:
    """Return the daemon and its guests: processes from the pid files that see this directory as /run/libvirt. A pid
    that was reused by another process is left out."""
    pids = set()
    run = directory / "run"
    for file in (run / "libvirtd.pid", *(run.glob("qemu/*.pid") if guests else ())):
        with contextlib.suppress(OSError, ValueError):
            pid = int(file.read_text())
            if os.path.samestat(os.stat(f"/proc/{pid}/root/run/libvirt"), run.stat()):
                pids.add(pid)
    return pids


def terminate(pids: set[int], timeout: float = 10.0) -> None:
    signal_all(pids, signal.SIGTERM)
    limit = time.monotonic() + timeout
    while any(os.path.exists(f"/proc/{pid}/root") for pid in pids):  # a zombie has no root
        if time.monotonic() > limit:
            return signal_all(pids, signal.SIGKILL)
        time.sleep(0.02)


def signal_all(pids: set[int], signal_number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal_number)
