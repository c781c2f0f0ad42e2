"""What the machines of a hypervisor use together at this moment, beside what it has."""

from sqlalchemy import func, select

from panel.core import clock
from panel.core.db import session
from panel.models import Instance, InstanceMetric
from panel.models.metrics import FIGURES
from panel.services import hypervisors
from panel.services.metrics.read import FRESH, moment
from panel.services.metrics.ring_buffer import FINEST

columns = InstanceMetric.__table__.c
SUMS = [func.coalesce(func.sum(columns[name]), 0).label(name) for name in FIGURES if name != "cpu_percent"]
CORES = func.coalesce(func.sum(columns.cpu_percent * Instance.cpu_cores) / 100, 0).label("cores")


def of_host(hypervisor):
    """The sums of the newest look at the node, if that is from the last minute: else `measured_at` is null, and every
    figure 0."""
    now = clock.now().timestamp()
    here = (Instance.id == columns.instance_id) & (Instance.hypervisor_id == hypervisor.id)
    lately = (columns.step == FINEST, columns.at > now - FRESH, columns.at <= now)
    at = session.scalar(select(func.max(columns.at)).join(Instance, here).where(*lately))
    found = select(func.count().label("instances"), CORES, *SUMS).select_from(InstanceMetric).join(Instance, here)
    row = session.execute(found.where(columns.step == FINEST, columns.at == at)).one()
    promised, cores = hypervisors.usage([hypervisor.id])[hypervisor.id], hypervisor.cpu_cores or 0
    percent = round(100 * row.cores / cores, 2) if cores else 0.0
    return {
        "status": hypervisors.condition(hypervisor),
        "seen_at": hypervisor.seen_at,
        "measured_at": moment(at) if at else None,
        "instances": row.instances,
        "cpu": {"cores": cores, "used": round(row.cores, 3), "percent": percent, "promised": promised["cpu_cores"]},
        "ram": {"total": hypervisor.memory_mb or 0, "used": round(row.memory_used, 3), "promised": promised["ram"]},
        "network": {word: round(getattr(row, f"network_{word}"), 3) for word in ("receive_mbps", "transmit_mbps")},
        "disk": {name.removeprefix("disk_"): getattr(row, name) for name in FIGURES if name.startswith("disk_")},
        "storages": hypervisor.storages,
    }
