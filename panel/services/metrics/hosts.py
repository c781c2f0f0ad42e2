"""What the machines of a hypervisor, a location or the platform use together, and a hypervisor's capacity."""

import time
from dataclasses import dataclass
from typing import Any

from sqlalchemy import func, select

from panel.core import clock, context
from panel.core.db import session
from panel.models import Hypervisor, HypervisorMetric, Instance, InstanceMetric
from panel.models.metrics import METRIC_NAMES
from panel.services import hypervisors
from panel.services.metrics.read import FRESH_SECONDS, TIME_RANGES, load_series, make_time
from panel.services.metrics.ring_buffer import FINEST_STEP, compute_slot, list_value_columns

CURVES_CACHE_SECONDS = 30
CURVE_NAMES = ("cores", "memory", "network", "storage")
"""Units: CPU cores, MiB, Mbit/s in both directions, bytes read and written a second."""


@dataclass
class PlatformCurves:
    """What the machines of each location used over time: the values by id of the location and second."""

    since: float
    until: float
    step: int
    points: dict[str, dict[int, dict[str, float]]]


columns = InstanceMetric.__table__.c
host_columns = HypervisorMetric.__table__.c
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


def get_host_series(hypervisor: Hypervisor, time_range: str) -> dict[str, Any]:
    """Return what the machines of a hypervisor used together, like the series of an instance, and what the whole host
    used. One query."""
    point_columns = [host_columns[name] for name in list_value_columns(HypervisorMetric.__table__)]
    series = load_series(point_columns, host_columns.hypervisor_id == hypervisor.id, time_range)
    return series | {"points": [row._asdict() | {"at": make_time(row.at)} for row in series["points"]]}


def list_location_loads() -> dict[str, dict[str, float]]:
    """Return what the machines of each location use now, by its id: `cores` and `memory` (MiB). One query."""
    now = int(clock.now().timestamp())
    slots = [compute_slot(FINEST_STEP, second)["slot"] for second in range(now - FRESH_SECONDS, now + 1, FINEST_STEP)]
    newest = select(
        Hypervisor.group_id,
        (func.avg(host_columns.cpu_percent) * Hypervisor.cpu_cores / 100).label("cores"),
        func.avg(host_columns.memory_used).label("memory"),
    ).join(HypervisorMetric, HypervisorMetric.hypervisor_id == Hypervisor.id)
    newest = newest.where(host_columns.step == FINEST_STEP, host_columns.slot.in_(slots))
    newest = newest.where(host_columns.at > now - FRESH_SECONDS, host_columns.at <= now)
    hosts = newest.group_by(Hypervisor.id, Hypervisor.group_id, Hypervisor.cpu_cores).subquery()
    query = select(hosts.c.group_id, func.sum(hosts.c.cores), func.sum(hosts.c.memory)).group_by(hosts.c.group_id)
    return {group_id: {"cores": cores, "memory": memory} for group_id, cores, memory in session.execute(query)}


def list_platform_curves() -> PlatformCurves:
    """Return what the machines of each location used in the last 24 hours. One query, at most once in 30 seconds."""
    process = context.current()
    expires_at, curves = process.cached_platform_curves
    if curves is None or expires_at < time.monotonic():
        curves = load_platform_curves()
        process.cached_platform_curves = time.monotonic() + CURVES_CACHE_SECONDS, curves
    return curves


def load_platform_curves() -> PlatformCurves:
    length, step = TIME_RANGES["1d"]
    until = clock.now().timestamp()
    query = (
        select(
            Hypervisor.group_id,
            host_columns.at,
            func.sum(host_columns.cpu_percent * Hypervisor.cpu_cores) / 100,
            func.sum(host_columns.memory_used),
            func.sum(host_columns.network_receive_mbps + host_columns.network_transmit_mbps),
            func.sum(host_columns.disk_read_bytes + host_columns.disk_write_bytes),
        )
        .join(HypervisorMetric, HypervisorMetric.hypervisor_id == Hypervisor.id)
        .where(host_columns.step == step, host_columns.at > until - length, host_columns.at <= until)
        .group_by(Hypervisor.group_id, host_columns.at)
        .order_by(host_columns.at)
    )
    curves = PlatformCurves(until - length, until, step, {})
    for group_id, at, *values in session.execute(query):
        curves.points.setdefault(group_id, {})[at] = dict(zip(CURVE_NAMES, values, strict=True))
    return curves
