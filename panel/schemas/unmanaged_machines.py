"""Differences between a hypervisor and the rows in the API."""

from marshmallow import fields, validate

from panel.schemas.base import Hostname, In, Name, Out, Text, Time, describe
from panel.schemas.catalog import EXAMPLE_ID
from panel.schemas.constants import TASK_STATUSES
from panel.schemas.subnets import Ip

POWER_STATES = ("on", "off", "paused")


class OrphanDiskOut(Out):
    device = fields.String(**describe("Device name.", "vda"))
    name = fields.String(
        **describe("File name in the storage; the full path if it is outside of all storages.", "old-web.qcow2")
    )
    storage = fields.String(allow_none=True, **describe("Storage; null if it is outside of all storages.", "default"))
    size = fields.Integer(**describe("Size in GiB.", 20))
    fault = fields.String(allow_none=True, **describe("Why an instance cannot have it, or null.", None))


class OrphanCardOut(Out):
    mac = fields.String(**describe("MAC address.", "52:54:00:12:34:56"))
    network = fields.String(**describe("Network or bridge.", "public"))
    addresses = fields.List(
        fields.String(), **describe("IP addresses in the latest report of the guest agent.", ["203.0.113.10"])
    )


class LostOut(Out):
    id = fields.String(**describe("Instance id.", EXAMPLE_ID))
    name = fields.String(**describe("Name on the hypervisor.", "h12345678"))


class OrphanOut(Out):
    id = fields.String(**describe("UUID of the VM.", EXAMPLE_ID))
    name = fields.String(**describe("Name on the hypervisor.", "old-web"))
    power = fields.String(
        allow_none=True,
        validate=validate.OneOf(POWER_STATES),
        **describe("Power state at the time of the comparison; null in old comparisons.", "off"),
    )
    cpu_cores = fields.Integer(allow_none=True, **describe("CPU cores.", 2))
    memory_mb = fields.Integer(allow_none=True, **describe("Memory in MiB.", 2048))
    disks = fields.List(fields.Nested(OrphanDiskOut), **describe("Disks, boot disk first."))
    nics = fields.List(fields.Nested(OrphanCardOut), **describe("Network interfaces."))
    tpm = fields.Boolean(allow_none=True, **describe("Whether it has a TPM.", False))
    secure_boot = fields.Boolean(allow_none=True, **describe("Whether it uses UEFI secure boot.", False))
    obstacles = fields.List(
        fields.String(),
        **describe(
            "Reasons why it cannot be imported.",
            ["Its disk vdb (/srv/more.img) is not in a storage of the hypervisor: add its directory as a storage."],
        ),
    )


class AdoptionIn(In):
    plan_id = Text(
        maximum=36, required=True, **describe("A plan of the location, not smaller than the VM.", EXAMPLE_ID)
    )
    display_name = Name(**describe("Display name. Defaults to the name on the hypervisor.", "Old web server"))
    hostname = Hostname(**describe("Displayed host name. The guest keeps its own.", "web.example.com"))
    ips = fields.List(
        Ip(),
        validate=validate.Length(max=32),
        **describe(
            "Addresses of the guest, which must be free in the location's subnets; an empty list for"
            " none. Defaults to those reported by the guest agent.",
            ["203.0.113.10"],
        ),
    )


class AdoptIn(AdoptionIn):
    user_id = Text(maximum=36, required=True, **describe("The new owner.", EXAMPLE_ID))


class AdoptingOut(Out):
    task_id = fields.String(**describe("The task.", EXAMPLE_ID))
    instance_id = fields.String(**describe("Id of the instance once the task is completed.", EXAMPLE_ID))


class DiscoveryOut(Out):
    task_id = fields.String(**describe("The comparison task.", EXAMPLE_ID))
    status = fields.String(validate=validate.OneOf(TASK_STATUSES), **describe("Current status.", "completed"))
    error = fields.String(allow_none=True, **describe("Error message.", None))
    finished_at = Time(allow_none=True, **describe("When it ended.", "2026-01-02T03:04:05.678Z"))
    unknown = fields.List(  # type: ignore[assignment]  # marshmallow's own option of this name is given elsewhere
        fields.Nested(OrphanOut), **describe("VMs on the hypervisor without an instance.")
    )
    missing = fields.List(fields.Nested(LostOut), **describe("Instances whose VM is missing on the hypervisor."))


class Typed(In):
    name = Text(required=True, **describe("Name of the VM, as confirmation.", "old-web"))


class Asked(Out):
    task_id = fields.String(**describe("The task.", EXAMPLE_ID))
