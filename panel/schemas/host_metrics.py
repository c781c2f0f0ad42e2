"""Combined metrics of a hypervisor's instances, in the API."""

from marshmallow import fields

from panel.schemas.base import Schema, Time, describe
from panel.schemas.hypervisors import StorageRow


def number_field(description, example):
    return fields.Float(**describe(description, example))


def block_field(name, description, **parts):
    return fields.Nested(Schema.from_dict(parts, name=name), **describe(description))


class HostNow(Schema):
    """A hypervisor's capacity, its allocations, and the current usage of its instances."""

    status = fields.String(**describe("`up`, `stale`, `unknown` or `down`.", "up"))
    seen_at = Time(allow_none=True, **describe("When it last responded.", "2026-01-02T03:04:05.678Z"))
    measured_at = Time(
        allow_none=True,
        **describe(
            "When the values were measured. If they are outdated, it is null and all values are 0.",
            "2026-01-02T03:04:00Z",
        ),
    )
    instances = fields.Integer(**describe("Number of measured running instances.", 12))
    cpu = block_field(
        "HostCpu",
        "CPU of the host.",
        cores=fields.Integer(**describe("CPU cores of the host.", 32)),
        used=number_field("CPU cores used by instances.", 3.5),
        percent=number_field("CPU usage by instances in percent of all cores.", 10.94),
        promised=fields.Integer(**describe("CPU cores allocated to instances.", 48)),
    )
    ram = block_field(
        "HostRam",
        "Memory of the host in MiB.",
        total=fields.Integer(**describe("Memory of the host.", 131072)),
        used=number_field("Memory used by instances.", 40960.5),
        promised=fields.Integer(**describe("Memory allocated to instances.", 65536)),
    )
    network = block_field(
        "HostNetwork",
        "Network traffic of the instances in Mbit/s.",
        receive_mbps=number_field("Received.", 120.5),
        transmit_mbps=number_field("Sent.", 80.25),
    )
    disk = block_field(
        "HostDisk",
        "Disk activity of the instances per second.",
        read_bytes=number_field("Bytes read.", 1048576.0),
        write_bytes=number_field("Bytes written.", 524288.0),
        read_iops=number_field("Reads.", 100.0),
        write_iops=number_field("Writes.", 50.0),
    )
    storages = fields.List(fields.Nested(StorageRow), **describe("Storages with their free space."))
