"""IP sets in the API."""

from marshmallow import fields, validate

from panel.schemas.base import In, Name, Out, PageQuery, Patch, Text, Time, describe
from panel.schemas.catalog import EXAMPLE_ID
from panel.schemas.constants import IP_VERSIONS

NAME_DESCRIPTION = describe("Name.", "Offices")
NOTE_DESCRIPTION = describe("Description.", "Allowed to reach the database")
VERSION_DESCRIPTION = describe("IP version of its networks.", "ipv4")
CIDR_DESCRIPTION = describe("A network. A single address is stored as `/32` or `/128`.", "203.0.113.0/24")


def version_field(**options):
    return fields.String(validate=validate.OneOf(IP_VERSIONS), **options, **VERSION_DESCRIPTION)


class IpSetEntryOut(Out):
    id = fields.String(**describe("Entry id.", EXAMPLE_ID))
    cidr = fields.String(**describe("The network.", "203.0.113.0/24"))
    description = fields.String(allow_none=True, **describe("Description.", "Berlin"))


class IpSetRow(Out):
    id = fields.String(**describe("Set id.", EXAMPLE_ID))
    name = fields.String(**NAME_DESCRIPTION)
    description = fields.String(allow_none=True, **NOTE_DESCRIPTION)
    ip_version = fields.String(validate=validate.OneOf(IP_VERSIONS), **VERSION_DESCRIPTION)
    is_global = fields.Boolean(
        **describe("Whether it belongs to the platform: all users can use it, only operators can change it.", False)
    )
    entries_count = fields.Integer(**describe("Number of networks.", 2))
    rules_count = fields.Integer(**describe("Number of rules that refer to it.", 1))
    created_at = Time(**describe("When it was created.", "2026-01-02T03:04:05.678Z"))
    updated_at = Time(**describe("When it last changed.", "2026-01-02T03:04:05.678Z"))


class IpSetOut(IpSetRow):
    entries = fields.List(fields.Nested(IpSetEntryOut), **describe("Its networks."))


class AdminIpSetRow(IpSetRow):
    account_id = fields.String(allow_none=True, **describe("The owner; null if it belongs to the platform.", None))


class AdminIpSetOut(AdminIpSetRow, IpSetOut):
    """A set, for operators."""


class IpSetIn(In):
    name = Name(required=True, **NAME_DESCRIPTION)
    ip_version = version_field(required=True)
    description = Text(load_default=None, allow_none=True, **NOTE_DESCRIPTION)


class AdminIpSetIn(IpSetIn):
    user_id = Text(
        maximum=36,
        load_default=None,
        allow_none=True,
        **describe("The owner. Defaults to the platform.", None),
    )


class IpSetPatch(Patch):
    name = Name(**NAME_DESCRIPTION)
    description = Text(allow_none=True, **NOTE_DESCRIPTION)
    ip_version = version_field()


class IpSetEntryIn(In):
    cidr = Text(maximum=49, minimum=1, required=True, **CIDR_DESCRIPTION)
    description = Text(load_default=None, allow_none=True, **describe("Description.", "Berlin"))


class IpSetBulk(In):
    cidrs = fields.List(
        Text(maximum=49, minimum=1),
        required=True,
        validate=validate.Length(1, 1000),
        **describe("Networks or single addresses.", ["203.0.113.0/24", "198.51.100.7"]),
    )


class IpSetRefusal(Out):
    cidr = fields.String(**describe("The network as it was sent.", "203.0.113.0/24"))
    message = fields.String(**describe("Why it could not be added.", "It is already in the set."))


class IpSetQuery(PageQuery):
    search = fields.String(validate=validate.Length(max=255), metadata={"description": "Part of a name."})
