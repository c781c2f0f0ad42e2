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
from worker.nodes.base import Power, Seen

log = structlog.get_logger()

STEP = 15
"""Seconds between two samples."""

GAP = 60
"""Seconds between two looks beyond which nothing is said about the time between them."""

ROLL_UP = 60
"""Seconds between two times that the longer spans are worked out."""

MiB = 1024**2
MBIT = 125_000


@dataclass(frozen=True)
class Look:
    """All machines of a node, by id, at a time. Spans are measured by a clock that nobody sets."""

    asked: datetime
    machines: dict[str, Seen]
    clock: float = field(default_factory=lambda: monotonic())

    @property
    def at(self):
        return self.asked.timestamp()


before: dict[str, Look] = {}
"""The last sample of each node."""


def sample(hypervisor_id, look):
    """Writes down what each machine used since the last sample, once for every 15 seconds of the clock. Two processes
    that do the same write the same."""
    last = before.get(hypervisor_id)
    if last and last.at // STEP == look.at // STEP:
        return
    before[hypervisor_id] = look
    if last is None or not 0 < look.clock - last.clock <= GAP:
        return
    known = select(Instance.id, Instance.cpu_cores, Instance.ram).where(Instance.hypervisor_id == hypervisor_id)
    figures = {}
    for instance_id, cores, ram in session.execute(known):
        pair = last.machines.get(instance_id), look.machines.get(instance_id)
        if all(pair) and counted(*pair):
            figures[instance_id] = used(*pair, look.clock - last.clock, cores, ram)
    try:
        metrics.write(figures, look.at)
        if figures and last.at // ROLL_UP != look.at // ROLL_UP:
            metrics.roll_up(hypervisor_id, look.at - ROLL_UP - STEP, look.at)
        session.commit()
    except IntegrityError:  # an instance was destroyed meanwhile: the next sample is without it
        session.rollback()
        log.info("sample_dropped", node=hypervisor_id)


def counted(earlier, later):
    """Whether the machine ran all the time. A counter that went back began anew, and one that stands at nothing was not
    told: a node that is busy with a machine leaves its counters out."""
    on = Power.off not in (earlier.power, later.power)
    return on and 0 < earlier.cpu_seconds <= later.cpu_seconds


def used(earlier, later, seconds, cores, ram):
    def rate(name):
        return grown(getattr(earlier, name), getattr(later, name)) / seconds

    def passed(name):
        was, is_ = getattr(earlier, name), getattr(later, name)
        return sum(grown(was.get(mac, 0), count) for mac, count in is_.items()) / seconds / MBIT

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


def grown(was, is_):
    """What came to a counter. Nothing is said about one that began anew, or was not told before."""
    return is_ - was if is_ >= was > 0 else 0
