"""Locations, plans and images in the API."""

from marshmallow import fields, validate

from panel.schemas.base import Out, describe
from panel.schemas.constants import OVERAGE_POLICIES

EXAMPLE_ID = "0199c0a8-7d3e-7c4e-9d3c-0d2f8a5b6c7d"


class LocationOut(Out):
    id = fields.String(**describe("Location id: the `location_id` of a create.", EXAMPLE_ID))
    name = fields.String(**describe("A short name, unique.", "fsn1"))
    display_name = fields.String(**describe("What people call it.", "Falkenstein"))
    country = fields.String(**describe("ISO 3166 code.", "DE"))
    is_available = fields.Boolean(**describe("Whether a machine can be placed there now.", True))


class PlanGroupOut(Out):
    id = fields.String(**describe("Plan group id.", EXAMPLE_ID))
    name = fields.String(**describe("A short name, unique.", "standard"))
    display_name = fields.String(**describe("What people call it.", "Standard"))


class PlanOut(Out):
    id = fields.String(**describe("Plan id: the `plan_id` of a create.", EXAMPLE_ID))
    name = fields.String(**describe("The plan's name.", "S"))
    cpu_cores = fields.Integer(**describe("Processor cores.", 2))
    ram = fields.Integer(**describe("MiB of memory.", 2048))
    storage = fields.Integer(**describe("GiB of the first disk.", 20))
    bandwidth = fields.Integer(**describe("GB of traffic a month; 0 is unlimited.", 1000))
    overage = fields.String(
        validate=validate.OneOf(OVERAGE_POLICIES),
        **describe(
            "When the traffic is used up: nothing happens (`none`), or until the next month the `network` is cut off"
            " or the `instance` is suspended.",
            "none",
        ),
    )
    port_speed = fields.Integer(**describe("Mbit/s each way; 0 is unlimited.", 1000))
    ipv4 = fields.Integer(**describe("IPv4 addresses that come with it.", 1))
    ipv6 = fields.Integer(**describe("IPv6 addresses that come with it.", 1))
    ipv6_prefixes = fields.Integer(**describe("IPv6 networks (prefixes) that are routed to it.", 1))
    private_ipv4 = fields.Integer(**describe("IPv4 addresses that come with it, known only within the location.", 1))
    price = fields.Float(**describe("A month, in the installation's currency.", 4.5))


class ImageOut(Out):
    id = fields.String(**describe("Image id.", EXAMPLE_ID))
    name = fields.String(**describe("A short name, unique.", "debian-12"))
    label = fields.String(**describe("What people call it.", "Debian 12"))
    distro = fields.String(**describe("The distribution.", "Debian"))
    version = fields.String(**describe("Its version.", "12"))
    type = fields.String(**describe("`linux`, `windows` or `other`.", "linux"))
    format = fields.String(**describe("Format of the file.", "qcow2"))
    purpose = fields.String(**describe("What it is for.", "general"))
    size = fields.Integer(**describe("Bytes of the file.", 20971520))
    cloudinit = fields.Boolean(**describe("Whether it reads a first-boot configuration.", True))
    min_disk = fields.Integer(**describe("GiB of disk it needs.", 1))
    min_ram = fields.Integer(**describe("MiB of memory it needs.", 192))


class ImageChoice(Out):
    id = fields.String(**describe("Image id.", EXAMPLE_ID))
    text = fields.String(attribute="label", **describe("What to show.", "Debian 12"))
    name = fields.String(**describe("A short name, unique.", "debian-12"))
    distro = fields.String(**describe("The distribution.", "Debian"))


class ImageBranch(Out):
    text = fields.String(**describe("The distribution.", "Debian"))
    children = fields.List(fields.Nested(ImageChoice), **describe("Its images."))
