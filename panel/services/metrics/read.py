"""Reading figures: charts, what a machine uses now, and the small curves of lists."""

from collections import defaultdict
from datetime import UTC, datetime, timedelta

from sqlalchemy import select

from panel.core import clock
from panel.core.db import session
from panel.models import InstanceMetric
from panel.models.metrics import METRIC_NAMES
from panel.services.metrics.ring_buffer import FINEST_STEP, VALUE_COLUMNS

TIME_RANGES = {"30m": (1800, 15), "1h": (3600, 15), "12h": (43200, 300), "1d": (86400, 300), "1w": (604800, 3600)}
"""How far back a chart reaches and how long each of its spans is, in seconds."""

FRESH_SECONDS = 60
"""Seconds for which the newest figures count as what a machine uses now."""

AGENT_STATE_TTL = timedelta(minutes=3)
"""How long what was seen of a guest agent counts; each is asked about once a minute."""

SPARKLINE_RANGE = (7200, 300)
"""What the small curves of a list show: like an entry of `TIME_RANGES`."""

columns = InstanceMetric.__table__.c
POINT_COLUMNS = [columns[name] for name in VALUE_COLUMNS]


def get_series(instance, time_range):
    """The figures of one machine, oldest first; a span in which nothing was measured is not there. One query."""
    length, step = TIME_RANGES[time_range]
    until = clock.now().timestamp()
    found = select(*POINT_COLUMNS).where(columns.instance_id == instance.id, columns.step == step)
    rows = session.execute(found.where(columns.at > until - length, columns.at <= until).order_by(columns.at)).all()
    return {
        "time_range": time_range,
        "step": step,
        "since": make_time(until - length),
        "until": make_time(until),
        "points": [make_point(instance, row) for row in rows],
    }


def make_point(instance, row):
    found = row._asdict()
    for ending in ("", "_max"):
        found[f"memory_percent{ending}"] = min(100.0, round(100 * found[f"memory_used{ending}"] / instance.ram, 2))
    return {**{name: round(value, 3) for name, value in found.items()}, "at": make_time(row.at)}


def make_time(seconds):
    return datetime.fromtimestamp(int(seconds), UTC)


def find_latest(instance):
    """The newest figures of a machine, if they are from the last minute; else None."""
    now = clock.now().timestamp()
    newest = select(*POINT_COLUMNS).where(columns.instance_id == instance.id, columns.step == FINEST_STEP)
    newest = newest.where(columns.at > now - FRESH_SECONDS, columns.at <= now).order_by(columns.at.desc()).limit(1)
    row = session.execute(newest).first()
    return row and make_point(instance, row)


def describe_now(instance):
    """What operators see of a machine at this moment: its power, what it uses, and whether its guest agent answers."""
    on = instance.power == "on"
    found = (find_latest(instance) if on else None) or defaultdict(lambda: None)
    return {
        "status": instance.status,
        "state": instance.state,
        "measured_at": found["at"],
        "uptime": int((clock.now() - instance.power_at).total_seconds()) if on and instance.power_at else 0,
        "cpu": {"percent": found["cpu_percent"], "cores": instance.cpu_cores},
        "ram": {"used": found["memory_used"], "total": instance.ram, "percent": found["memory_percent"]},
        "network": {"receive_mbps": found["network_receive_mbps"], "transmit_mbps": found["network_transmit_mbps"]},
        "disk": {name.removeprefix("disk_"): found[name] for name in METRIC_NAMES if name.startswith("disk_")},
        "agent": describe_agent(instance),
    }


def describe_agent(instance):
    """Whether the guest agent answers, and else why not (specification 4.11)."""
    if instance.power != "on":
        return {"available": False, "reason": "not_running"}
    checked = instance.agent_checked_at
    known = (
        checked and clock.now() - checked <= AGENT_STATE_TTL and not (instance.power_at and checked < instance.power_at)
    )
    available = bool(known) and not instance.agent_down
    return {"available": available, "reason": None if available else "agent_not_reporting"}


def get_sparklines(instances):
    """For each of these instances its processor use of late, as pairs of a share of the time and a share of all its
    processors, both from 0 to 1. Those with fewer than two figures are not there. One query for all."""
    length, step = SPARKLINE_RANGE
    now = clock.now().timestamp()
    found = select(columns.instance_id, columns.at, columns.cpu_percent).where(
        columns.instance_id.in_([each.id for each in instances]), columns.step == step
    )
    curves = defaultdict(list)
    for id_, at, percent in session.execute(
        found.where(columns.at > now - length, columns.at <= now).order_by(columns.instance_id, columns.at)
    ):
        curves[id_].append((1 - (now - at) / length, min(percent, 100) / 100))
    return {id_: curve for id_, curve in curves.items() if len(curve) > 1}
