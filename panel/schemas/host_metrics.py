"""Metrics of a hypervisor's machines together, in the API."""

from marshmallow import fields

from panel.schemas.base import Schema, Time, describe
from panel.schemas.hypervisors import StorageRow


def number_field(description, example):
    return fields.Float(**describe(description, example))


def block_field(name, description, **parts):
    return fields.Nested(Schema.from_dict(parts, name=name), **describe(description))


class HostNow(Schema):
    """A hypervisor's capacity, its allocations, and what its machines use at this moment."""

    status = fields.String(**describe("`up`, `stale`, `unknown` or `down`.", "up"))
    seen_at = Time(allow_none=True, **describe("When it answered last.", "2026-01-02T03:04:05.678Z"))
    measured_at = Time(
        allow_none=True,
        **describe("When the figures were taken; null, and each of them 0, when long ago.", "2026-01-02T03:04:00Z"),
    )
    instances = fields.Integer(**describe("Running instances that were measured.", 12))
    cpu = block_field(
        "HostCpu",
        "Its processors.",
        cores=fields.Integer(**describe("Cores of the host.", 32)),
        used=number_field("Cores that the instances keep busy.", 3.5),
        percent=number_field("The same, of all cores.", 10.94),
        promised=fields.Integer(**describe("Cores of its instances.", 48)),
    )
    ram = block_field(
        "HostRam",
        "Its memory, in MiB.",
        total=fields.Integer(**describe("Of the host.", 131072)),
        used=number_field("What the instances use.", 40960.5),
        promised=fields.Integer(**describe("What its instances have.", 65536)),
    )
    network = block_field(
        "HostNetwork",
        "What the instances receive and send, in Mbit/s.",
        receive_mbps=number_field("Received.", 120.5),
        transmit_mbps=number_field("Sent.", 80.25),
    )
    disk = block_field(
        "HostDisk",
        "What the instances read and write, a second.",
        read_bytes=number_field("Bytes read.", 1048576.0),
        write_bytes=number_field("Bytes written.", 524288.0),
        read_iops=number_field("Reads.", 100.0),
        write_iops=number_field("Writes.", 50.0),
    )
    storages = fields.List(fields.Nested(StorageRow), **describe("Its storages, with what is free."))
