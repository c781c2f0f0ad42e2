"""The counters of a running machine, as a function of its id and uptime."""

import math
import zlib
from typing import Any

LOAD_PERIOD_SECONDS = 600
"""Seconds in which a machine's load rises and falls once, so that graphs are not flat."""

DISK_OPERATION_BYTES = 16384
"""Bytes of one disk operation."""


def compute_work_seconds(uptime: float, key: str) -> float:
    """Return the seconds of work done with a load that oscillates around one half; it never decreases."""
    phase = compute_key_fraction(key) * LOAD_PERIOD_SECONDS
    swing = LOAD_PERIOD_SECONDS / (2 * math.pi)
    wave = math.sin((uptime + phase) / swing) - math.sin(phase / swing)
    return (uptime - 0.8 * swing * wave) / 2


def compute_key_fraction(key: str) -> float:
    """Return a number from 0 to 1, derived from the key."""
    return zlib.crc32(key.encode()) / 0xFFFFFFFF


def compute_counters(machine_id: str, live: dict[str, Any], uptime: float) -> dict[str, Any]:
    """Return the counter fields of `MachineStatus` for a machine that was started with the definition `live`."""
    work = compute_work_seconds(uptime, machine_id)

    def count_bytes(kind: str, mbps: int) -> int:
        """Return bytes, never beyond the speed limit."""
        peak = 20e6 * compute_key_fraction(machine_id + kind)
        return int(work * min(peak, mbps * 125_000 if mbps else peak))

    return {
        "cpu_seconds": work * live["cpu_cores"] * (0.02 + 0.6 * compute_key_fraction(machine_id + "cpu")),
        "received": {nic["mac"]: count_bytes(nic["mac"] + "in", nic["inbound_mbps"]) for nic in live["nics"]},
        "sent": {nic["mac"]: count_bytes(nic["mac"] + "out", nic["outbound_mbps"]) for nic in live["nics"]},
        "memory_used": int(live["memory_mb"] * 1024**2 * (0.3 + 0.6 * compute_key_fraction(machine_id + "memory"))),
        "guest_memory": int(live["memory_mb"] * 1024**2 * (0.2 + 0.5 * compute_key_fraction(machine_id + "memory"))),
        "disk_read": count_bytes("read", 0),
        "disk_written": count_bytes("write", 0),
        "disk_reads": count_bytes("read", 0) // DISK_OPERATION_BYTES,
        "disk_writes": count_bytes("write", 0) // DISK_OPERATION_BYTES,
    }
