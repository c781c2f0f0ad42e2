"""The load of the whole host."""

import libvirt

from worker.nodes.base import HostUsage

IDLE_STATES = ("idle", "iowait")
CACHES = ("free", "buffers", "cached")


def read_host_usage(connection: libvirt.virConnect) -> HostUsage:
    """Return the counters of all processors (libvirt has nanoseconds) and the used memory (KiB)."""
    times = connection.getCPUStats(libvirt.VIR_NODE_CPU_STATS_ALL_CPUS)
    total = sum(times[state] for state in ("kernel", "user", *IDLE_STATES) if state in times)
    idle = sum(times.get(state, 0) for state in IDLE_STATES)
    memory = connection.getMemoryStats(libvirt.VIR_NODE_MEMORY_STATS_ALL_CELLS)
    unused = sum(memory.get(cache, 0) for cache in CACHES)
    return HostUsage((total - idle) / 1e9, total / 1e9, (memory["total"] - unused) * 1024)
