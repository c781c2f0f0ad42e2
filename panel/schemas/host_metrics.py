"""What a hypervisor's machines use together."""

from marshmallow import fields

from panel.schemas.base import Schema, Time, about
from panel.schemas.hypervisors import StorageRow


def number(words, example):
    return fields.Float(**about(words, example))


def block(name, words, **parts):
    return fields.Nested(Schema.from_dict(parts, name=name), **about(words))


class HostNow(Schema):
    """What a hypervisor has, what is promised of it, and what its machines use at this moment."""

    status = fields.String(**about("`up`, `stale`, `unknown` or `down`.", "up"))
    seen_at = Time(allow_none=True, **about("When it answered last.", "2026-01-02T03:04:05.678Z"))
    measured_at = Time(
        allow_none=True,
        **about("When the figures were taken; null, and each of them 0, when long ago.", "2026-01-02T03:04:00Z"),
    )
    instances = fields.Integer(**about("Running instances that were measured.", 12))
    cpu = block(
        "HostCpu",
        "Its processors.",
        cores=fields.Integer(**about("Cores of the host.", 32)),
        used=number("Cores that the instances keep busy.", 3.5),
        percent=number("The same, of all cores.", 10.94),
        promised=fields.Integer(**about("Cores of its instances.", 48)),
    )
    ram = block(
        "HostRam",
        "Its memory, in MiB.",
        total=fields.Integer(**about("Of the host.", 131072)),
        used=number("What the instances use.", 40960.5),
        promised=fields.Integer(**about("What its instances have.", 65536)),
    )
    network = block(
        "HostNetwork",
        "What the instances receive and send, in Mbit/s.",
        receive_mbps=number("Received.", 120.5),
        transmit_mbps=number("Sent.", 80.25),
    )
    disk = block(
        "HostDisk",
        "What the instances read and write, a second.",
        read_bytes=number("Bytes read.", 1048576.0),
        write_bytes=number("Bytes written.", 524288.0),
        read_iops=number("Reads.", 100.0),
        write_iops=number("Writes.", 50.0),
    )
    storages = fields.List(fields.Nested(StorageRow), **about("Its storages, with what is free."))
