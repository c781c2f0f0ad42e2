"""Metrics of instances in the API."""

from typing import ClassVar

from marshmallow import Schema, fields, validate

from panel.schemas.base import Out, Time, describe

TIME_RANGES = ("30m", "1h", "12h", "1d", "1w")
METRIC_DESCRIPTIONS = {
    "cpu_percent": ("CPU usage in percent of all cores", 12.5),
    "memory_used": ("Used memory in MiB, as reported by the guest or, without a report, by the hypervisor", 310.2),
    "memory_percent": ("Used memory in percent", 60.6),
    "network_receive_mbps": ("Received traffic of all interfaces in Mbit/s", 1.25),
    "network_transmit_mbps": ("Sent traffic of all interfaces in Mbit/s", 0.4),
    "disk_read_bytes": ("Disk reads in bytes per second", 4096.0),
    "disk_write_bytes": ("Disk writes in bytes per second", 20480.0),
    "disk_read_iops": ("Disk read operations per second", 0.5),
    "disk_write_iops": ("Disk write operations per second", 2.1),
}
"""Description and example of each metric."""


class MetricsQuery(Schema):
    time_range = fields.String(
        data_key="timeRange",
        load_default="1h",
        validate=validate.OneOf(TIME_RANGES),
        metadata={
            "description": "Length of the series. Steps are 15 s up to `1h`, 5 min up to `1d`, and 1 h for `1w`."
        },
    )


def build_metric_fields(name, subject, example):
    """Return the fields of a metric's average and maximum."""
    return {
        name: fields.Float(**describe(f"{subject} (average).", example)),
        f"{name}_max": fields.Float(**describe(f"{subject} (maximum).", example)),
    }


class MetricsPoint(Out):
    at = Time(**describe("Start of the step.", "2026-01-02T03:04:00Z"))

    class Meta:
        include: ClassVar = {
            key: field
            for name, description in METRIC_DESCRIPTIONS.items()
            for key, field in build_metric_fields(name, *description).items()
        }


class MetricsSeries(Schema):
    time_range = fields.String(**describe("The requested time range.", "1h"))
    step = fields.Integer(**describe("Length of a step in seconds.", 15))
    since = Time(**describe("Start of the series.", "2026-01-02T02:04:05Z"))
    until = Time(**describe("End of the series: the time of the response.", "2026-01-02T03:04:05Z"))
    points = fields.List(
        fields.Nested(MetricsPoint),
        **describe(
            "Data points, oldest first. Steps without measurements, such as while the instance was off, are missing."
        ),
    )


def metric_field(name):
    description, example = METRIC_DESCRIPTIONS[name]
    return fields.Float(allow_none=True, **describe(f"{description}; null if there is no recent value.", example))


def block_field(name, **parts):
    return fields.Nested(Schema.from_dict(parts, name=name), **describe("Current values."))


class MetricsNow(Schema):
    """The current usage of an instance."""

    status = fields.Integer(**describe("0 stopped, 1 running, 2 suspended.", 1))
    state = fields.String(**describe("Current state.", "running"))
    measured_at = Time(
        allow_none=True,
        **describe("When the values were measured; null if they are outdated.", "2026-01-02T03:04:05Z"),
    )
    uptime = fields.Integer(**describe("Seconds since it was powered on; 0 while it is off.", 86400))
    cpu = block_field("CpuNow", percent=metric_field("cpu_percent"), cores=fields.Integer(**describe("CPU cores.", 2)))
    ram = block_field(
        "RamNow",
        used=metric_field("memory_used"),
        total=fields.Integer(**describe("Memory in MiB.", 512)),
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
        available=fields.Boolean(**describe("Whether the guest agent responds.", True)),
        reason=fields.String(
            allow_none=True,
            **describe("Reason if not: `not_running` or `agent_not_reporting`; otherwise null.", None),
        ),
    )
