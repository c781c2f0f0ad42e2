"""Resource packs in the API."""

from marshmallow import fields, validate

from panel.schemas.base import Bool, In, Int, Name, Number, Out, PageQuery, Patch, Text, Time, describe
from panel.schemas.catalog import EXAMPLE_ID
from panel.schemas.instances import InstanceIn

NAME_DESCRIPTION = describe("Display name.", "Laboratory")
CORES_DESCRIPTION = describe("Total CPU cores.", 16)
RAM_DESCRIPTION = describe("Total memory in MiB.", 32768)
STORAGE_DESCRIPTION = describe("Total disk space in GiB.", 500)
INSTANCES_DESCRIPTION = describe("Maximum number of instances; 0 means unlimited.", 10)
LOCATION_DESCRIPTION = describe("Location id; null for all locations.", None)
PRICE_DESCRIPTION = describe("Monthly price of the pack in the installation's currency.", 40)


class PackFields(In):
    description = Text(maximum=65536, lines=True, allow_none=True, **describe("Description shown to the owner.", None))
    location_id = Text(maximum=36, allow_none=True, **LOCATION_DESCRIPTION)
    enabled = Bool(**describe("If false, no new instances can be created from it; existing ones keep running.", True))
    instances = Int(0, 100_000, **INSTANCES_DESCRIPTION)
    price = Number(0, 10**7, **PRICE_DESCRIPTION)


class PackIn(PackFields):
    user_id = Text(maximum=36, required=True, **describe("The owner.", EXAMPLE_ID))
    name = Name(maximum=64, required=True, **NAME_DESCRIPTION)
    cpu_cores = Int(1, 100_000, required=True, **CORES_DESCRIPTION)
    ram = Int(1, 2**31 - 1, required=True, **RAM_DESCRIPTION)
    storage = Int(1, 2**31 - 1, required=True, **STORAGE_DESCRIPTION)


class PackPatch(Patch, PackFields):
    name = Name(maximum=64, **NAME_DESCRIPTION)
    cpu_cores = Int(1, 100_000, **CORES_DESCRIPTION)
    ram = Int(1, 2**31 - 1, **RAM_DESCRIPTION)
    storage = Int(1, 2**31 - 1, **STORAGE_DESCRIPTION)


class PackUse(Out):
    instances = fields.Integer(**describe("Number of instances created from it.", 2))
    cpu_cores = fields.Integer(**describe("CPU cores of these instances.", 4))
    ram = fields.Integer(**describe("Memory of these instances in MiB.", 4096))
    storage = fields.Integer(**describe("Disks of these instances in GiB.", 80))


class PackOut(Out):
    id = fields.String(**describe("Pack id, used as `pack_id` to create an instance.", EXAMPLE_ID))
    name = fields.String(**NAME_DESCRIPTION)
    description = fields.String(allow_none=True, **describe("Description.", None))
    location_id = fields.String(attribute="group_id", allow_none=True, **LOCATION_DESCRIPTION)
    enabled = fields.Boolean(**describe("If false, no new instances can be created from it.", True))
    instances = fields.Integer(**INSTANCES_DESCRIPTION)
    cpu_cores = fields.Integer(**CORES_DESCRIPTION)
    ram = fields.Integer(**RAM_DESCRIPTION)
    storage = fields.Integer(**STORAGE_DESCRIPTION)
    price = fields.Float(**PRICE_DESCRIPTION)
    used = fields.Nested(PackUse, **describe("Usage of the pack."))
    created_at = Time(**describe("When it was added.", "2026-01-02T03:04:05.678Z"))
    updated_at = Time(**describe("When it last changed.", "2026-01-02T03:04:05.678Z"))


class AdminPackOut(PackOut):
    user_id = fields.String(attribute="account_id", **describe("The owner.", EXAMPLE_ID))
    owner = fields.String(attribute="owner_email", **describe("Email address of the owner.", "ada@example.com"))


class PackQuery(PageQuery):
    user_id = fields.String(validate=validate.Length(max=36), metadata={"description": "Only packs of this user."})


class PackedInstanceIn(InstanceIn):
    pack_id = Text(
        maximum=36,
        **describe(
            "Resource pack. Defaults to the first one with enough capacity, or none if the account has no packs.",
            EXAMPLE_ID,
        ),
    )
