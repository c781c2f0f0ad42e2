"""Read metrics: charts, current usage, and the sparklines of lists."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, select

from panel.core import clock
from panel.core.db import session
from panel.models import Instance, InstanceMetric
from panel.models.metrics import METRIC_NAMES
from panel.services.metrics.ring_buffer import FINEST_STEP, VALUE_COLUMNS

TIME_RANGES = {"30m": (1800, 15), "1h": (3600, 15), "12h": (43200, 300), "1d": (86400, 300), "1w": (604800, 3600)}
"""How far back a chart reaches and how long each of its steps is, in seconds."""

FRESH_SECONDS = 60
"""How long the newest sample counts as the current usage."""

AGENT_STATE_TTL = timedelta(minutes=3)
"""How long an observation of a guest agent counts; each agent is polled about once a minute."""

SPARKLINE_RANGE = (7200, 300)
"""Range and step of a list's sparklines, like an entry of `TIME_RANGES`."""

columns = InstanceMetric.__table__.c
POINT_COLUMNS = [columns[name] for name in VALUE_COLUMNS]


def get_series(instance: Instance, time_range: str) -> dict[str, Any]:
    """Return the samples of one machine, oldest first, without steps in which nothing was measured. One query."""
    series = load_series(POINT_COLUMNS, columns.instance_id == instance.id, time_range)
    return series | {"points": [make_point(instance, row._asdict()) for row in series["points"]]}


def load_series(
    point_columns: list[Any],
    condition: ColumnElement[bool],
    time_range: str,
    time_ranges: Mapping[str, tuple[int, int]] = TIME_RANGES,
    *,
    group_by: ColumnElement[int] | None = None,
) -> dict[str, Any]:
    """Return the rows of one ring buffer in the time range, oldest first. The first column is the time."""
    length, step = time_ranges[time_range]
    until, table = clock.now().timestamp(), point_columns[0].table.c
    query = select(*point_columns).where(condition, table.step == step)
    query = query.where(table.at > until - length, table.at <= until).order_by(table.at)
    query = query if group_by is None else query.group_by(group_by)
    return {
        "time_range": time_range,
        "step": step,
        "since": make_time(until - length),
        "until": make_time(until),
        "points": session.execute(query).all(),
    }


def make_point(instance: Instance, values: dict[str, Any]) -> dict[str, Any]:
    for ending in ("", "_max"):
        values[f"memory_percent{ending}"] = min(100.0, round(100 * values[f"memory_used{ending}"] / instance.ram, 2))
    return {**{name: round(value, 3) for name, value in values.items()}, "at": make_time(values["at"])}


def make_time(seconds: float) -> datetime:
    return datetime.fromtimestamp(int(seconds), UTC)


def count_written_bytes(instance: Instance, since: datetime) -> int | None:
    """Return about how many bytes the machine has written to its disks since then; None without samples, or when it
    is longer ago than they are kept."""
    age = (clock.now() - since).total_seconds()
    time_range = next((name for name, (length, _step) in TIME_RANGES.items() if length >= age), None)
    if time_range is None:
        return None
    series = get_series(instance, time_range)
    speeds = [point["disk_write_bytes"] for point in series["points"] if point["at"] >= since]
    return int(sum(speeds) * series["step"]) if speeds else None


def find_latest(instance: Instance) -> dict[str, Any] | None:
    """Return the newest sample of a machine, if it is from the last minute; else None."""
    now = clock.now().timestamp()
    query = select(*POINT_COLUMNS).where(columns.instance_id == instance.id, columns.step == FINEST_STEP)
    query = query.where(columns.at > now - FRESH_SECONDS, columns.at <= now).order_by(columns.at.desc()).limit(1)
    row = session.execute(query).first()
    return None if row is None else make_point(instance, row._asdict())


def map_latest(instances: Iterable[Instance]) -> dict[str, dict[str, Any]]:
    """Return the newest sample of each machine that was measured in the last minute, by id. One query."""
    machines, now = {instance.id: instance for instance in instances}, clock.now().timestamp()
    query = select(columns.instance_id, *POINT_COLUMNS).where(
        columns.instance_id.in_(machines), columns.step == FINEST_STEP
    )
    query = query.where(columns.at > now - FRESH_SECONDS, columns.at <= now).order_by(columns.at)
    newest = {row.instance_id: row[1:] for row in session.execute(query)}
    names = [column.name for column in POINT_COLUMNS]
    return {
        instance_id: make_point(machines[instance_id], dict(zip(names, values, strict=True)))
        for instance_id, values in newest.items()
    }


def find_fresh(series: dict[str, Any]) -> dict[str, Any] | None:
    """Return the newest point of a series, if it is from the last minute; else None."""
    points = series["points"]
    oldest = series["until"] - timedelta(seconds=FRESH_SECONDS)
    return points[-1] if points and points[-1]["at"] > oldest else None


def describe_now(instance: Instance) -> dict[str, Any]:
    """Return what operators see of a machine now: its power, its usage, and whether its guest agent answers."""
    is_on = instance.power == "on"
    latest = (find_latest(instance) if is_on else None) or defaultdict(lambda: None)
    return {
        "status": instance.status,
        "state": instance.state,
        "measured_at": latest["at"],
        "uptime": int((clock.now() - instance.power_reported_at).total_seconds())
        if is_on and instance.power_reported_at
        else 0,
        "cpu": {"percent": latest["cpu_percent"], "cores": instance.cpu_cores},
        "ram": {"used": latest["memory_used"], "total": instance.ram, "percent": latest["memory_percent"]},
        "network": {"receive_mbps": latest["network_receive_mbps"], "transmit_mbps": latest["network_transmit_mbps"]},
        "disk": {name.removeprefix("disk_"): latest[name] for name in METRIC_NAMES if name.startswith("disk_")},
        "agent": describe_agent(instance),
    }


def describe_agent(instance: Instance) -> dict[str, Any]:
    """Return whether the guest agent answers, and else the reason (INS-95 to INS-97)."""
    if instance.power != "on":
        return {"available": False, "reason": "not_running"}
    checked = instance.agent_checked_at
    is_current = (
        checked
        and clock.now() - checked <= AGENT_STATE_TTL
        and not (instance.power_reported_at and checked < instance.power_reported_at)
    )
    available = bool(is_current) and not instance.agent_down
    return {"available": available, "reason": None if available else "agent_not_reporting"}


def get_sparklines(instances: Iterable[Instance]) -> dict[str, list[tuple[float, float]]]:
    """Return the recent CPU usage of each instance, by id.

    The values are pairs from 0 to 1: position in the range, and share of all its processors. Instances with fewer than
    two samples are left out. One query.
    """
    return {id_: load["cpu"] for id_, load in get_load_curves(instances).items()}


def get_load_curves(instances: Iterable[Instance]) -> dict[str, dict[str, Any]]:
    """Return the recent CPU usage and network traffic of each instance, by id.

    `cpu` is as in `get_sparklines`. `network` is of both directions and relative to its own highest value, at least
    1 Mbit/s. `cpu_now` (percent) and `network_now` (Mbit/s) are the last values. One query.
    """
    length, step = SPARKLINE_RANGE
    now = clock.now().timestamp()
    network = columns.network_receive_mbps + columns.network_transmit_mbps
    query = select(columns.instance_id, columns.at, columns.cpu_percent, network).where(
        columns.instance_id.in_([instance.id for instance in instances]), columns.step == step
    )
    points = defaultdict(list)
    for id_, at, percent, rate in session.execute(
        query.where(columns.at > now - length, columns.at <= now).order_by(columns.instance_id, columns.at)
    ):
        points[id_].append((1 - (now - at) / length, min(percent, 100), rate))
    return {id_: make_load_curves(rows) for id_, rows in points.items() if len(rows) > 1}


def make_load_curves(rows: list[tuple[float, float, float]]) -> dict[str, Any]:
    highest_rate = max(1.0, *(rate for _, _, rate in rows))
    return {
        "cpu": [(position, percent / 100) for position, percent, _ in rows],
        "network": [(position, rate / highest_rate) for position, _, rate in rows],
        "cpu_now": rows[-1][1],
        "network_now": rows[-1][2],
    }
