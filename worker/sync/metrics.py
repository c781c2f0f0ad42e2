"""Measuring what machines use: the difference between the counters of two polls of a node.

Nodes count from each machine's start. The previous poll is stored in memory only, so a process that begins, or becomes
leader, measures from its second poll on.
"""

from dataclasses import dataclass, field
from datetime import datetime
from time import monotonic

import structlog
from sqlalchemy import Select, select
from sqlalchemy.exc import IntegrityError

from panel.core.db import session
from panel.models import Address, Hypervisor, Instance, Interface, Microvm
from panel.models.metrics import METRIC_NAMES
from panel.services import metrics
from panel.services.metrics import subnets
from panel.services.microvms import usages as microvms
from worker.nodes.base import HostUsage, MachineStatus, Power

log = structlog.get_logger()

SAMPLE_INTERVAL_SECONDS = 15
"""Seconds between two samples."""

MAX_SAMPLE_GAP_SECONDS = 60
"""Seconds between two polls above which nothing is recorded for the time between them."""

ROLLUP_INTERVAL_SECONDS = 60
"""Seconds between two rollups into the longer spans."""

MiB = 1024**2
BYTES_PER_MEGABIT = 125_000


@dataclass(frozen=True)
class NodeSample:
    """All machines of a node, by id, at one time. `clock` is monotonic and is used to measure durations."""

    queried_at: datetime
    machines: dict[str, MachineStatus]
    host: HostUsage | None = None
    clock: float = field(default_factory=lambda: monotonic())

    @property
    def at(self) -> float:
        return self.queried_at.timestamp()


last_samples: dict[str, NodeSample] = {}
"""The last sample of each node."""


def is_sample_due(hypervisor_id: str, at: float) -> bool:
    """Return whether a sample of this second would be stored: one in every 15 seconds."""
    previous = last_samples.get(hypervisor_id)
    return not previous or previous.at // SAMPLE_INTERVAL_SECONDS != at // SAMPLE_INTERVAL_SECONDS


def record_sample(hypervisor_id: str, sample: NodeSample) -> None:
    """Record what each machine used since the last sample, once in every 15 seconds.

    Two processes that do so at the same time write the same values.
    """
    if not is_sample_due(hypervisor_id, sample.at):
        return
    previous = last_samples.get(hypervisor_id)
    last_samples[hypervisor_id] = sample
    if previous is None or not 0 < sample.clock - previous.clock <= MAX_SAMPLE_GAP_SECONDS:
        return
    usages = measure(select_instances(hypervisor_id), previous, sample)
    microvm_usages = measure(select_microvms(hypervisor_id), previous, sample)
    try:
        metrics.write({instance_id: usage for instance_id, (_, usage) in usages.items()}, sample.at)
        microvms.write_usages({id_: {**usage, "at": sample.at} for id_, (_, usage) in microvm_usages.items()})
        traffic = measure_subnets(hypervisor_id, previous, sample)
        subnets.add_traffic(hypervisor_id, traffic, sample.clock - previous.clock, sample.at)
        host_usage = measure_host(previous.host, sample.host)
        record_host(hypervisor_id, [*usages.values(), *microvm_usages.values()], host_usage, sample.at)
        if previous.at // ROLLUP_INTERVAL_SECONDS != sample.at // ROLLUP_INTERVAL_SECONDS:
            since = sample.at - ROLLUP_INTERVAL_SECONDS - SAMPLE_INTERVAL_SECONDS
            metrics.rollup_host(hypervisor_id, since, sample.at)
            if usages:
                metrics.rollup(hypervisor_id, since, sample.at)
        session.commit()
    except IntegrityError:  # an instance was destroyed in the meantime: the next sample is without it
        session.rollback()
        log.info("sample_dropped", node=hypervisor_id)


def measure_subnets(hypervisor_id: str, previous: NodeSample, sample: NodeSample) -> dict[str, tuple[int, int]]:
    """Return what guests received and sent between two samples, by the subnets in which their interfaces have
    addresses. Machines that were off in between count as 0."""
    query = select(Address.subnet_id, Interface.mac, Interface.instance_id).distinct()
    query = query.join(Interface, Address.interface_id == Interface.id).join(Instance)
    traffic: dict[str, tuple[int, int]] = {}
    for subnet_id, mac, instance_id in session.execute(query.where(Instance.hypervisor_id == hypervisor_id)):
        received, sent = traffic.get(subnet_id, (0, 0))
        earlier, later = previous.machines.get(instance_id), sample.machines.get(instance_id)
        if earlier and later and is_measurable(earlier, later):
            received += int(compute_counter_increase(earlier.received.get(mac, 0), later.received.get(mac, 0)))
            sent += int(compute_counter_increase(earlier.sent.get(mac, 0), later.sent.get(mac, 0)))
        traffic[subnet_id] = received, sent
    return traffic


def measure_host(earlier: HostUsage | None, later: HostUsage | None) -> dict[str, float]:
    """Return what the whole host used between two samples; nothing when a report is missing or counters restarted."""
    if not (earlier and later):
        return {}
    busy, total = later.busy_seconds - earlier.busy_seconds, later.total_seconds - earlier.total_seconds
    if busy < 0 or total <= 0:
        return {}
    return {"host_cpu_percent": min(100.0, 100 * busy / total), "host_memory_used": later.memory_used / MiB}


def record_host(
    hypervisor_id: str, usages: list[tuple[int, dict[str, float]]], host_usage: dict[str, float], at: float
) -> None:
    """Store what the machines of the node used together: the sums, and the processors in percent of the host's; and
    what the whole host used."""
    host_cores = session.scalar(select(Hypervisor.cpu_cores).where(Hypervisor.id == hypervisor_id))
    if host_cores:
        totals = {name: sum(usage[name] for _, usage in usages) for name in METRIC_NAMES}
        totals["cpu_percent"] = min(100.0, sum(cores * usage["cpu_percent"] for cores, usage in usages) / host_cores)
        metrics.write_host(hypervisor_id, totals | host_usage, at)


def select_instances(hypervisor_id: str) -> Select[str, int, int]:
    return select(Instance.id, Instance.cpu_cores, Instance.ram).where(Instance.hypervisor_id == hypervisor_id)


def select_microvms(hypervisor_id: str) -> Select[str, int, int]:
    query = select(Microvm.id, Microvm.cpu_cores, Microvm.memory_mb)
    return query.where(Microvm.hypervisor_id == hypervisor_id, Microvm.ended_at.is_(None))


def measure(
    query: Select[str, int, int], previous: NodeSample, sample: NodeSample
) -> dict[str, tuple[int, dict[str, float]]]:
    """Return the cores of each running machine of the query, by id, and what it used since the last sample."""
    usages = {}
    for machine_id, cores, ram in session.execute(query):
        earlier, later = previous.machines.get(machine_id), sample.machines.get(machine_id)
        if earlier and later and is_measurable(earlier, later):
            usages[machine_id] = cores, compute_usage(earlier, later, sample.clock - previous.clock, cores, ram)
    return usages


def is_measurable(earlier: MachineStatus, later: MachineStatus) -> bool:
    """Return whether the machine ran all the time between two samples.

    A counter that decreased was restarted. A counter of 0 is missing: a node that is busy with a machine leaves its
    counters out.
    """
    is_on = Power.off not in (earlier.power, later.power)
    return is_on and 0 < earlier.cpu_seconds <= later.cpu_seconds


def compute_usage(
    earlier: MachineStatus, later: MachineStatus, seconds: float, cores: int, ram: int
) -> dict[str, float]:
    def counter_rate(name: str) -> float:
        return compute_counter_increase(getattr(earlier, name), getattr(later, name)) / seconds

    def traffic_rate(name: str) -> float:
        counts_before, counts = getattr(earlier, name), getattr(later, name)
        return (
            sum(compute_counter_increase(counts_before.get(mac, 0), count) for mac, count in counts.items())
            / seconds
            / BYTES_PER_MEGABIT
        )

    memory = later.memory_used if later.guest_memory is None else later.guest_memory
    return {
        "cpu_percent": min(100.0, 100 * counter_rate("cpu_seconds") / cores),
        "memory_used": min(memory / MiB, ram),
        "network_receive_mbps": traffic_rate("received"),
        "network_transmit_mbps": traffic_rate("sent"),
        "disk_read_bytes": counter_rate("disk_read"),
        "disk_write_bytes": counter_rate("disk_written"),
        "disk_read_iops": counter_rate("disk_reads"),
        "disk_write_iops": counter_rate("disk_writes"),
    }


def compute_counter_increase(before: float, now: float) -> float:
    """Return the growth of a counter; 0 when it was restarted or was missing before."""
    return now - before if now >= before > 0 else 0
