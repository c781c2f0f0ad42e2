"""The load of the sandbox: processor, memory and disk."""

import asyncio
import os
import time
from pathlib import Path
from typing import Any

FIRST_SAMPLE_SECONDS = 0.1
MEBIBYTE = 1024 * 1024
IDLE_FIELDS = slice(3, 5)
"""The fields idle and iowait of the first line of /proc/stat."""
CPU_FIELDS = 8
"""Further fields of that line count the time of guests, which the first ones contain."""


class Metrics:
    """Measures the use of the processor between two calls."""

    def __init__(self) -> None:
        self.sample: tuple[int, int] | None = None

    async def measure(self) -> dict[str, Any]:
        if self.sample is None:
            self.sample = read_cpu_times()
            await asyncio.sleep(FIRST_SAMPLE_SECONDS)
        current = read_cpu_times()
        busy, total = current[0] - self.sample[0], current[1] - self.sample[1]
        if total > 0:
            self.sample = current
        memory = read_memory()
        disk = os.statvfs("/")
        used = memory["MemTotal"] - memory["MemFree"] - memory["Buffers"] - memory["Cached"] - memory["SReclaimable"]
        return {
            "ts": int(time.time()),
            "cpu_count": os.cpu_count() or 1,
            "cpu_used_pct": round(100 * busy / total, 2) if total > 0 else 0.0,
            "mem_total": memory["MemTotal"],
            "mem_used": max(used, 0),
            "mem_cache": memory["Cached"],
            "mem_total_mib": memory["MemTotal"] // MEBIBYTE,
            "mem_used_mib": max(used, 0) // MEBIBYTE,
            "disk_used": (disk.f_blocks - disk.f_bfree) * disk.f_frsize,
            "disk_total": disk.f_blocks * disk.f_frsize,
        }


def read_cpu_times() -> tuple[int, int]:
    """Return the (busy, total) time of all processors since the start, in ticks."""
    line = Path("/proc/stat").read_text().partition("\n")[0]
    times = [int(text) for text in line.split()[1:]][:CPU_FIELDS]
    return sum(times) - sum(times[IDLE_FIELDS]), sum(times)


def read_memory() -> dict[str, int]:
    """Return the fields of /proc/meminfo in bytes."""
    fields = dict.fromkeys(("MemTotal", "MemFree", "Buffers", "Cached", "SReclaimable"), 0)
    for line in Path("/proc/meminfo").read_text().splitlines():
        name, _separator, value = line.partition(":")
        if name in fields:
            fields[name] = int(value.split()[0]) * 1024
    return fields
