"""Metrics of machines in the API."""

from typing import ClassVar

from marshmallow import Schema, fields, validate

from panel.schemas.base import Out, Time, describe

TIME_RANGES = ("30m", "1h", "12h", "1d", "1w")
METRIC_DESCRIPTIONS = {
    "cpu_percent": ("Percent of all its processors", 12.5),
    "memory_used": ("MiB of memory in use, as the guest tells it; as the node sees it when it does not", 310.2),
    "memory_percent": ("Percent of its memory in use", 60.6),
    "network_receive_mbps": ("Mbit/s that the guest receives, on all its cards", 1.25),
    "network_transmit_mbps": ("Mbit/s that the guest sends, on all its cards", 0.4),
    "disk_read_bytes": ("Bytes a second read from its disks", 4096.0),
    "disk_write_bytes": ("Bytes a second written to its disks", 20480.0),
    "disk_read_iops": ("Read operations a second on its disks", 0.5),
    "disk_write_iops": ("Write operations a second on its disks", 2.1),
}
"""Description and example of each metric."""


class MetricsQuery(Schema):
    time_range = fields.String(
        data_key="timeRange",
        load_default="1h",
        validate=validate.OneOf(TIME_RANGES),
        metadata={"description": "How far back: spans of 15 s up to `1h`, of 5 min up to `1d`, of 1 h for `1w`."},
    )


def build_metric_fields(name, subject, example):
    """Return the fields of a metric's average and maximum."""
    return {
        name: fields.Float(**describe(f"{subject}; the average.", example)),
        f"{name}_max": fields.Float(**describe(f"{subject}; the highest.", example)),
    }


class MetricsPoint(Out):
    at = Time(**describe("When the span began.", "2026-01-02T03:04:00Z"))

    class Meta:
        include: ClassVar = {
            key: field
            for name, description in METRIC_DESCRIPTIONS.items()
            for key, field in build_metric_fields(name, *description).items()
        }


class MetricsSeries(Schema):
    time_range = fields.String(**describe("The requested time range.", "1h"))
    step = fields.Integer(**describe("Seconds of a span.", 15))
    since = Time(**describe("Where the series begins.", "2026-01-02T02:04:05Z"))
    until = Time(**describe("Where it ends: the moment of the answer.", "2026-01-02T03:04:05Z"))
    points = fields.List(
        fields.Nested(MetricsPoint),
        **describe("The spans, oldest first. One in which nothing was measured (the machine was off) is not there."),
    )


def metric_field(name):
    description, example = METRIC_DESCRIPTIONS[name]
    return fields.Float(allow_none=True, **describe(f"{description}; null when it was not measured lately.", example))


def block_field(name, **parts):
    return fields.Nested(Schema.from_dict(parts, name=name), **describe("Its parts."))


class MetricsNow(Schema):
    """What a machine uses at this moment."""

    status = fields.Integer(**describe("0 stopped, 1 running, 2 suspended.", 1))
    state = fields.String(**describe("Where it is in its life.", "running"))
    measured_at = Time(
        allow_none=True,
        **describe("When the figures were taken; null when long ago.", "2026-01-02T03:04:05Z"),
    )
    uptime = fields.Integer(**describe("Seconds since it was powered on; 0 while it is off.", 86400))
    cpu = block_field(
        "CpuNow", percent=metric_field("cpu_percent"), cores=fields.Integer(**describe("Processor cores.", 2))
    )
    ram = block_field(
        "RamNow",
        used=metric_field("memory_used"),
        total=fields.Integer(**describe("MiB of memory.", 512)),
        percent=metric_field("memory_percent"),
    )
    network = block_field(
        "NetworkNow",
        receive_mbps=metric_field("network_receive_mbps"),
        transmit_mbps=metric_field("network_transmit_mbps"),
    )
    disk = block_field(
        "DiskNow",
        **{name: metric_field(f"disk_{name}") for name in ("read_bytes", "write_bytes", "read_iops", "write_iops")},
    )
    agent = block_field(
        "AgentNow",
        available=fields.Boolean(**describe("Whether the guest agent answers.", True)),
        reason=fields.String(
            allow_none=True,
            **describe("Why it does not: `not_running` or `agent_not_reporting`; null when it does.", None),
        ),
    )
