"""Resource packs in the API."""

from marshmallow import fields, validate

from panel.schemas.base import Bool, In, Int, Name, Number, Out, PageQuery, Patch, Text, Time, describe
from panel.schemas.catalog import EXAMPLE_ID
from panel.schemas.instances import InstanceIn

NAME_DESCRIPTION = describe("What people call it.", "Laboratory")
CORES_DESCRIPTION = describe("Processor cores in all.", 16)
RAM_DESCRIPTION = describe("MiB of memory in all.", 32768)
STORAGE_DESCRIPTION = describe("GiB of disk in all.", 500)
INSTANCES_DESCRIPTION = describe("How many instances there may be; 0 is unlimited.", 10)
LOCATION_DESCRIPTION = describe("The location that it is for; null for all.", None)
PRICE_DESCRIPTION = describe("A month for the whole of it, in the installation's currency.", 40)


class PackFields(In):
    description = Text(maximum=65536, lines=True, allow_none=True, **describe("A note that its owner sees.", None))
    location_id = Text(maximum=36, allow_none=True, **LOCATION_DESCRIPTION)
    enabled = Bool(**describe("Off: nothing more is made from it; what there is goes on.", True))
    instances = Int(0, 100_000, **INSTANCES_DESCRIPTION)
    price = Number(0, 10**7, **PRICE_DESCRIPTION)


class PackIn(PackFields):
    user_id = Text(maximum=36, required=True, **describe("Whose it is.", EXAMPLE_ID))
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
    instances = fields.Integer(**describe("Instances made from it.", 2))
    cpu_cores = fields.Integer(**describe("Their processor cores.", 4))
    ram = fields.Integer(**describe("Their memory, MiB.", 4096))
    storage = fields.Integer(**describe("Their disks, GiB.", 80))


class PackOut(Out):
    id = fields.String(**describe("Pack id: the `pack_id` of a create.", EXAMPLE_ID))
    name = fields.String(**NAME_DESCRIPTION)
    description = fields.String(allow_none=True, **describe("A note.", None))
    location_id = fields.String(attribute="group_id", allow_none=True, **LOCATION_DESCRIPTION)
    enabled = fields.Boolean(**describe("Off: nothing more is made from it.", True))
    instances = fields.Integer(**INSTANCES_DESCRIPTION)
    cpu_cores = fields.Integer(**CORES_DESCRIPTION)
    ram = fields.Integer(**RAM_DESCRIPTION)
    storage = fields.Integer(**STORAGE_DESCRIPTION)
    price = fields.Float(**PRICE_DESCRIPTION)
    used = fields.Nested(PackUse, **describe("What of it is in use."))
    created_at = Time(**describe("When it was added.", "2026-01-02T03:04:05.678Z"))
    updated_at = Time(**describe("When it last changed.", "2026-01-02T03:04:05.678Z"))


class AdminPackOut(PackOut):
    user_id = fields.String(attribute="account_id", **describe("Whose it is.", EXAMPLE_ID))
    owner = fields.String(attribute="owner_email", **describe("The owner's email address.", "ada@example.com"))


class PackQuery(PageQuery):
    user_id = fields.String(validate=validate.Length(max=36), metadata={"description": "Only packs of this user."})


class PackedInstanceIn(InstanceIn):
    pack_id = Text(
        maximum=36,
        **describe(
            "The resource pack to take it from; by default the first with room, and none when the account has none.",
            EXAMPLE_ID,
        ),
    )
