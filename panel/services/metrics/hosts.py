"""What the machines of a hypervisor use together now, and the hypervisor's capacity."""

from typing import Any

from sqlalchemy import func, select

from panel.core import clock
from panel.core.db import session
from panel.models import Hypervisor, Instance, InstanceMetric
from panel.models.metrics import METRIC_NAMES
from panel.services import hypervisors
from panel.services.metrics.read import FRESH_SECONDS, make_time
from panel.services.metrics.ring_buffer import FINEST_STEP

columns = InstanceMetric.__table__.c
SUM_COLUMNS = [func.coalesce(func.sum(columns[name]), 0).label(name) for name in METRIC_NAMES if name != "cpu_percent"]
USED_CORES = func.coalesce(func.sum(columns.cpu_percent * Instance.cpu_cores) / 100, 0).label("cores")


def describe_host(hypervisor: Hypervisor) -> dict[str, Any]:
    """Return the sums of the newest samples of the last minute.

    Without such samples `measured_at` is null and every sum is 0.
    """
    now = clock.now().timestamp()
    on_host = (Instance.id == columns.instance_id) & (Instance.hypervisor_id == hypervisor.id)
    is_fresh = (columns.step == FINEST_STEP, columns.at > now - FRESH_SECONDS, columns.at <= now)
    at = session.scalar(select(func.max(columns.at)).join(Instance, on_host).where(*is_fresh))
    query = (
        select(func.count().label("instances"), USED_CORES, *SUM_COLUMNS)
        .select_from(InstanceMetric)
        .join(Instance, on_host)
    )
    row = session.execute(query.where(columns.step == FINEST_STEP, columns.at == at)).one()
    cores = hypervisor.cpu_cores or 0
    percent = round(100 * row.cores / cores, 2) if cores else 0.0
    return {
        "status": hypervisors.get_condition(hypervisor),
        "seen_at": hypervisor.seen_at,
        "measured_at": make_time(at) if at else None,
        "instances": row.instances,
        "cpu": {
            "cores": cores,
            "used": round(row.cores, 3),
            "percent": percent,
            "promised": hypervisor.allocated_cpu_cores,
        },
        "ram": {
            "total": hypervisor.memory_mb or 0,
            "used": round(row.memory_used, 3),
            "promised": hypervisor.allocated_ram,
        },
        "network": {
            direction: round(getattr(row, f"network_{direction}"), 3) for direction in ("receive_mbps", "transmit_mbps")
        },
        "disk": {name.removeprefix("disk_"): getattr(row, name) for name in METRIC_NAMES if name.startswith("disk_")},
        "storages": hypervisor.storages,
    }
