"""Resource packs on the wire."""

from marshmallow import fields, validate

from panel.schemas.base import Bool, In, Int, Name, Number, Out, PageQuery, Patch, Text, Time, about
from panel.schemas.catalog import ID
from panel.schemas.instances import InstanceIn

NAME = about("What people call it.", "Laboratory")
CORES = about("Processor cores in all.", 16)
RAM = about("MiB of memory in all.", 32768)
STORAGE = about("GiB of disk in all.", 500)
MOST = about("How many instances there may be; 0 is unlimited.", 10)
PLACE = about("The location that it is for; null for all.", None)
PRICE = about("A month for the whole of it, in the installation's currency.", 40)


class PackFields(In):
    description = Text(most=65536, lines=True, allow_none=True, **about("A note that its owner sees.", None))
    location_id = Text(most=36, allow_none=True, **PLACE)
    enabled = Bool(**about("Off: nothing more is made from it; what there is goes on.", True))
    instances = Int(0, 100_000, **MOST)
    price = Number(0, 10**7, **PRICE)


class PackIn(PackFields):
    user_id = Text(most=36, required=True, **about("Whose it is.", ID))
    name = Name(most=64, required=True, **NAME)
    cpu_cores = Int(1, 100_000, required=True, **CORES)
    ram = Int(1, 2**31 - 1, required=True, **RAM)
    storage = Int(1, 2**31 - 1, required=True, **STORAGE)


class PackPatch(Patch, PackFields):
    name = Name(most=64, **NAME)
    cpu_cores = Int(1, 100_000, **CORES)
    ram = Int(1, 2**31 - 1, **RAM)
    storage = Int(1, 2**31 - 1, **STORAGE)


class PackUse(Out):
    instances = fields.Integer(**about("Instances made from it.", 2))
    cpu_cores = fields.Integer(**about("Their processor cores.", 4))
    ram = fields.Integer(**about("Their memory, MiB.", 4096))
    storage = fields.Integer(**about("Their disks, GiB.", 80))


class PackOut(Out):
    id = fields.String(**about("Pack id: the `pack_id` of a create.", ID))
    name = fields.String(**NAME)
    description = fields.String(allow_none=True, **about("A note.", None))
    location_id = fields.String(attribute="group_id", allow_none=True, **PLACE)
    enabled = fields.Boolean(**about("Off: nothing more is made from it.", True))
    instances = fields.Integer(**MOST)
    cpu_cores = fields.Integer(**CORES)
    ram = fields.Integer(**RAM)
    storage = fields.Integer(**STORAGE)
    price = fields.Float(**PRICE)
    used = fields.Nested(PackUse, **about("What of it is in use."))
    created_at = Time(**about("When it was added.", "2026-01-02T03:04:05.678Z"))
    updated_at = Time(**about("When it last changed.", "2026-01-02T03:04:05.678Z"))


class AdminPackOut(PackOut):
    user_id = fields.String(attribute="account_id", **about("Whose it is.", ID))
    owner = fields.String(attribute="owner_email", **about("The owner's email address.", "ada@example.com"))


class PackQuery(PageQuery):
    user_id = fields.String(validate=validate.Length(max=36), metadata={"description": "Only packs of this user."})


class PackedInstanceIn(InstanceIn):
    pack_id = Text(
        most=36,
        **about(
            "The resource pack to take it from; by default the first with room, and none when the account has none.", ID
        ),
    )
