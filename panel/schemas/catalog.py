"""Locations, plans and images in the API."""

from marshmallow import fields, validate

from panel.schemas.base import Out, Schema, describe
from panel.schemas.constants import OVERAGE_POLICIES

EXAMPLE_ID = "0199c0a8-7d3e-7c4e-9d3c-0d2f8a5b6c7d"


class LocationOut(Out):
    id = fields.String(**describe("Location id, used as `location_id` to create an instance.", EXAMPLE_ID))
    name = fields.String(**describe("Unique short name.", "fsn1"))
    display_name = fields.String(**describe("Display name.", "Falkenstein"))
    country = fields.String(**describe("ISO 3166 country code.", "DE"))
    is_available = fields.Boolean(**describe("Whether new instances can be created there at the moment.", True))


class PlanGroupOut(Out):
    id = fields.String(**describe("Plan group id.", EXAMPLE_ID))
    name = fields.String(**describe("Unique short name.", "standard"))
    display_name = fields.String(**describe("Display name.", "Standard"))


class PlanOut(Out):
    id = fields.String(**describe("Plan id, used as `plan_id` to create an instance.", EXAMPLE_ID))
    name = fields.String(**describe("Name of the plan.", "S"))
    cpu_cores = fields.Integer(**describe("CPU cores.", 2))
    ram = fields.Integer(**describe("Memory in MiB.", 2048))
    storage = fields.Integer(**describe("Size of the first disk in GiB.", 20))
    bandwidth = fields.Integer(**describe("Monthly traffic in GB; 0 means unlimited.", 1000))
    overage = fields.String(
        validate=validate.OneOf(OVERAGE_POLICIES),
        **describe(
            "What happens when the traffic is used up: nothing (`none`), or until the end of the month"
            " the network is disconnected (`network`) or the instance is suspended (`instance`).",
            "none",
        ),
    )
    port_speed = fields.Integer(**describe("Port speed in Mbit/s per direction; 0 means unlimited.", 1000))
    ipv4 = fields.Integer(**describe("Included IPv4 addresses.", 1))
    ipv6 = fields.Integer(**describe("Included IPv6 addresses.", 1))
    ipv6_prefixes = fields.Integer(**describe("Included IPv6 prefixes, routed to the instance.", 1))
    private_ipv4 = fields.Integer(**describe("Included private IPv4 addresses, reachable only within the location.", 1))
    price = fields.Float(**describe("Monthly price in the installation's currency.", 4.5))


class ImageOut(Out):
    id = fields.String(**describe("Image id.", EXAMPLE_ID))
    name = fields.String(**describe("Unique short name.", "debian-12"))
    label = fields.String(**describe("Display name.", "Debian 12"))
    distro = fields.String(**describe("The distribution.", "Debian"))
    version = fields.String(**describe("Version of the distribution.", "12"))
    type = fields.String(**describe("`linux`, `windows` or `other`.", "linux"))
    format = fields.String(**describe("File format.", "qcow2"))
    purpose = fields.String(**describe("Purpose.", "general"))
    size = fields.Integer(**describe("File size in bytes.", 20971520))
    cloudinit = fields.Boolean(**describe("Whether the image supports cloud-init.", True))
    min_disk = fields.Integer(**describe("Minimum disk size in GiB.", 1))
    min_ram = fields.Integer(**describe("Minimum memory in MiB.", 192))


class ImageChoice(Out):
    id = fields.String(**describe("Image id.", EXAMPLE_ID))
    text = fields.String(attribute="label", **describe("Display name.", "Debian 12"))
    name = fields.String(**describe("Unique short name.", "debian-12"))
    distro = fields.String(**describe("The distribution.", "Debian"))


class ImageBranch(Out):
    text = fields.String(**describe("The distribution.", "Debian"))
    children = fields.List(fields.Nested(ImageChoice), **describe("Its images."))


class CurrencyOut(Schema):
    id = fields.String(**describe("The code, because currencies have no other id.", "EUR"))
    code = fields.String(**describe("Code (ISO 4217).", "EUR"))
    name = fields.String(**describe("English name.", "Euro"))
    symbol = fields.String(**describe("Symbol, or the code for a currency without one.", "€"))
    is_default = fields.Boolean(**describe("Whether prices are in this currency.", True))
