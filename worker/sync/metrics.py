"""Measuring what machines use: the looks at a node that are made anyway, compared with each other.

Nodes count from each machine's start; what was used between two looks is their difference. The look before is kept in
memory: a process that begins, or takes over, measures from its second look on.
"""

from dataclasses import dataclass, field
from datetime import datetime
from time import monotonic

import structlog
from sqlalchemy import select
from sqlalchemy.exc import IntegrityError

from panel.core.db import session
from panel.models import Instance
from panel.services import metrics
from worker.nodes.base import MachineStatus, Power

log = structlog.get_logger()

SAMPLE_INTERVAL_SECONDS = 15
"""Seconds between two samples."""

MAX_SAMPLE_GAP_SECONDS = 60
"""Seconds between two looks beyond which nothing is said about the time between them."""

ROLLUP_INTERVAL_SECONDS = 60
"""Seconds between two times that the longer spans are worked out."""

MiB = 1024**2
BYTES_PER_MEGABIT = 125_000


@dataclass(frozen=True)
class NodeSample:
    """All machines of a node, by id, at a time. Spans are measured by a clock that nobody sets."""

    asked: datetime
    machines: dict[str, MachineStatus]
    clock: float = field(default_factory=lambda: monotonic())

    @property
    def at(self):
        return self.asked.timestamp()


last_samples: dict[str, NodeSample] = {}
"""The last sample of each node."""


def record_sample(hypervisor_id, look):
    """Writes down what each machine used since the last sample, once for every 15 seconds of the clock. Two processes
    that do the same write the same."""
    last = last_samples.get(hypervisor_id)
    if last and last.at // SAMPLE_INTERVAL_SECONDS == look.at // SAMPLE_INTERVAL_SECONDS:
        return
    last_samples[hypervisor_id] = look
    if last is None or not 0 < look.clock - last.clock <= MAX_SAMPLE_GAP_SECONDS:
        return
    known = select(Instance.id, Instance.cpu_cores, Instance.ram).where(Instance.hypervisor_id == hypervisor_id)
    figures = {}
    for instance_id, cores, ram in session.execute(known):
        pair = last.machines.get(instance_id), look.machines.get(instance_id)
        if all(pair) and is_measurable(*pair):
            figures[instance_id] = compute_usage(*pair, look.clock - last.clock, cores, ram)
    try:
        metrics.write(figures, look.at)
        if figures and last.at // ROLLUP_INTERVAL_SECONDS != look.at // ROLLUP_INTERVAL_SECONDS:
            metrics.rollup(hypervisor_id, look.at - ROLLUP_INTERVAL_SECONDS - SAMPLE_INTERVAL_SECONDS, look.at)
        session.commit()
    except IntegrityError:  # an instance was destroyed meanwhile: the next sample is without it
        session.rollback()
        log.info("sample_dropped", node=hypervisor_id)


def is_measurable(earlier, later):
    """Whether the machine ran all the time. A counter that went back began anew, and one that stands at nothing was not
    told: a node that is busy with a machine leaves its counters out."""
    on = Power.off not in (earlier.power, later.power)
    return on and 0 < earlier.cpu_seconds <= later.cpu_seconds


def compute_usage(earlier, later, seconds, cores, ram):
    def rate(name):
        return counter_delta_or_zero(getattr(earlier, name), getattr(later, name)) / seconds

    def passed(name):
        was, is_ = getattr(earlier, name), getattr(later, name)
        return (
            sum(counter_delta_or_zero(was.get(mac, 0), count) for mac, count in is_.items())
            / seconds
            / BYTES_PER_MEGABIT
        )

    memory = later.memory_used if later.guest_memory is None else later.guest_memory
    return {
        "cpu_percent": min(100.0, 100 * rate("cpu_seconds") / cores),
        "memory_used": min(memory / MiB, ram),
        "network_receive_mbps": passed("received"),
        "network_transmit_mbps": passed("sent"),
        "disk_read_bytes": rate("disk_read"),
        "disk_write_bytes": rate("disk_written"),
        "disk_read_iops": rate("disk_reads"),
        "disk_write_iops": rate("disk_writes"),
    }


def counter_delta_or_zero(was, is_):
    """What came to a counter. Nothing is said about one that began anew, or was not told before."""
    return is_ - was if is_ >= was > 0 else 0
