"""Differences between a hypervisor and the rows in the API."""

from marshmallow import fields, validate

from panel.schemas.base import Hostname, In, Name, Out, Text, Time, describe
from panel.schemas.catalog import EXAMPLE_ID
from panel.schemas.constants import TASK_STATUSES
from panel.schemas.subnets import Ip

POWER_STATES = ("on", "off", "paused")


class OrphanDiskOut(Out):
    device = fields.String(**describe("What the machine calls it.", "vda"))
    name = fields.String(**describe("Its file in the storage; outside of storages where it lies.", "old-web.qcow2"))
    storage = fields.String(allow_none=True, **describe("The storage; null when it lies outside of them.", "default"))
    size = fields.Integer(**describe("GiB that the guest sees.", 20))
    fault = fields.String(allow_none=True, **describe("Why an instance cannot have it.", None))


class OrphanCardOut(Out):
    mac = fields.String(**describe("Its hardware address.", "52:54:00:12:34:56"))
    network = fields.String(**describe("The network or bridge that it joins.", "public"))
    addresses = fields.List(
        fields.String(), **describe("What the guest's agent told, now or when it ran last.", ["203.0.113.10"])
    )


class LostOut(Out):
    id = fields.String(**describe("The instance.", EXAMPLE_ID))
    name = fields.String(**describe("Its name on the hypervisor.", "h12345678"))


class OrphanOut(Out):
    id = fields.String(**describe("The machine's UUID.", EXAMPLE_ID))
    name = fields.String(**describe("Its name on the hypervisor.", "old-web"))
    power = fields.String(
        allow_none=True,
        validate=validate.OneOf(POWER_STATES),
        **describe("What it was when it was looked at; null in old discoveries, which only counted.", "off"),
    )
    cpu_cores = fields.Integer(allow_none=True, **describe("Its processors.", 2))
    memory_mb = fields.Integer(allow_none=True, **describe("MiB of memory.", 2048))
    disks = fields.List(fields.Nested(OrphanDiskOut), **describe("Its disks, the one that it boots from first."))
    nics = fields.List(fields.Nested(OrphanCardOut), **describe("Its network cards."))
    tpm = fields.Boolean(allow_none=True, **describe("Whether it has a TPM.", False))
    secure_boot = fields.Boolean(allow_none=True, **describe("Whether its firmware is UEFI with secure boot.", False))
    obstacles = fields.List(
        fields.String(),
        **describe(
            "What keeps it from being imported, whatever is chosen for it.",
            ["Its disk vdb (/srv/more.img) lies in no storage of the hypervisor: add its folder as one."],
        ),
    )


class AdoptionIn(In):
    plan_id = Text(
        maximum=36, required=True, **describe("A plan of the location, not smaller than the machine.", EXAMPLE_ID)
    )
    display_name = Name(**describe("The label; by default its name on the hypervisor.", "Old web server"))
    hostname = Hostname(**describe("The host name that is shown; the guest keeps its own.", "web.example.com"))
    ips = fields.List(
        Ip(),
        validate=validate.Length(max=32),
        **describe(
            "The addresses that its guest uses, free ones of the location's subnets; an empty list for none. By default"
            " those that the guest told of.",
            ["203.0.113.10"],
        ),
    )


class AdoptIn(AdoptionIn):
    user_id = Text(maximum=36, required=True, **describe("Who gets it.", EXAMPLE_ID))


class AdoptingOut(Out):
    task_id = fields.String(**describe("The task that does it.", EXAMPLE_ID))
    instance_id = fields.String(**describe("The id that the instance has when the task is completed.", EXAMPLE_ID))


class DiscoveryOut(Out):
    task_id = fields.String(**describe("The task that looks.", EXAMPLE_ID))
    status = fields.String(validate=validate.OneOf(TASK_STATUSES), **describe("Where it stands.", "completed"))
    error = fields.String(allow_none=True, **describe("Why it failed.", None))
    finished_at = Time(allow_none=True, **describe("When it ended.", "2026-01-02T03:04:05.678Z"))
    unknown = fields.List(  # type: ignore[assignment]  # marshmallow's own option of this name is given elsewhere
        fields.Nested(OrphanOut), **describe("Machines on the hypervisor that no instance knows.")
    )
    missing = fields.List(fields.Nested(LostOut), **describe("Instances whose machine the hypervisor does not have."))


class Typed(In):
    name = Text(required=True, **describe("The machine's name, to confirm.", "old-web"))


class Asked(Out):
    task_id = fields.String(**describe("The task that does it.", EXAMPLE_ID))
