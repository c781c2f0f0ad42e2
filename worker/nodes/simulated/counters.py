"""What a running machine has used so far: the same machine after the same time has always used the same."""

import math
import zlib

LOAD_PERIOD_SECONDS = 600
"""Seconds in which a machine's load rises and falls once, so that graphs have something to show."""

DISK_OPERATION_BYTES = 16384
"""Bytes that move in one operation of a disk."""


def work_seconds(uptime, key):
    """Seconds of work done while the load went up and down around one half; it never decreases."""
    phase = key_fraction(key) * LOAD_PERIOD_SECONDS
    swing = LOAD_PERIOD_SECONDS / (2 * math.pi)
    wave = math.sin((uptime + phase) / swing) - math.sin(phase / swing)
    return (uptime - 0.8 * swing * wave) / 2


def key_fraction(key):
    """A number from 0 to 1 that belongs to the key."""
    return zlib.crc32(key.encode()) / 0xFFFFFFFF


def compute_counters(machine_id, live, uptime):
    """The counted fields of `Seen` for a machine that was started with the definition `live`."""
    work = work_seconds(uptime, machine_id)

    def moved(what, mbps):
        """Bytes, never beyond the speed limit."""
        peak = 20e6 * key_fraction(machine_id + what)
        return int(work * min(peak, mbps * 125_000 if mbps else peak))

    return {
        "cpu_seconds": work * live["cpu_cores"] * (0.02 + 0.6 * key_fraction(machine_id + "cpu")),
        "received": {nic["mac"]: moved(nic["mac"] + "in", nic["inbound_mbps"]) for nic in live["nics"]},
        "sent": {nic["mac"]: moved(nic["mac"] + "out", nic["outbound_mbps"]) for nic in live["nics"]},
        "memory_used": int(live["memory_mb"] * 1024**2 * (0.3 + 0.6 * key_fraction(machine_id + "memory"))),
        "guest_memory": int(live["memory_mb"] * 1024**2 * (0.2 + 0.5 * key_fraction(machine_id + "memory"))),
        "disk_read": moved("read", 0),
        "disk_written": moved("write", 0),
        "disk_reads": moved("read", 0) // DISK_OPERATION_BYTES,
        "disk_writes": moved("write", 0) // DISK_OPERATION_BYTES,
    }
