"""Subnets and addresses in the API."""

import ipaddress

from marshmallow import ValidationError, fields, validate

from panel.core.messages import message
from panel.schemas.base import Bool, In, Int, Name, Out, PageQuery, Patch, QueryInt, Text, Time, describe
from panel.schemas.catalog import EXAMPLE_ID
from panel.schemas.constants import ADDRESS_USES, SUBNET_KINDS
from panel.schemas.hypervisors import GroupRef


class Ip(Text):
    """An IPv4 or IPv6 address, converted to its shortest form."""

    def __init__(self, **options):
        super().__init__(maximum=45, **options)

    def _deserialize(self, value, attr, data, **kwargs):
        try:
            return str(ipaddress.ip_address(super()._deserialize(value, attr, data, **kwargs)))
        except ValueError:
            raise ValidationError(message("Must be an IP address.")) from None


class Cidr(Text):
    """A network in CIDR notation, without host bits."""

    example = "203.0.113.0/24"
    """What errors show."""

    def __init__(self, **options):
        super().__init__(maximum=49, **options)

    def _deserialize(self, value, attr, data, **kwargs):
        text = super()._deserialize(value, attr, data, **kwargs)
        if "/" not in text:
            raise ValidationError(message("Must be a network such as {example}.", example=self.example))
        try:
            return str(ipaddress.ip_network(text))
        except ValueError as error:
            if "has host bits set" not in str(error):
                raise ValidationError(message("Must be a network such as {example}.", example=self.example)) from None
            first = ipaddress.ip_network(text, strict=False)
            raise ValidationError(
                message("Must start with the first address of the network: {first}.", first=first)
            ) from None


KIND_DESCRIPTION = (
    "`public`: public addresses. `private` (IPv4 only): addresses that are reachable only within"
    " the location and do not count as public addresses of plans. `routed` (IPv6 only): prefixes"
    " of the length `delegated_length`."
)
DELEGATED_LENGTH_DESCRIPTION = "`routed` only: length of the prefixes that are assigned to instances, such as 64."


class Statistics(Out):
    total = fields.Integer(
        **describe("Total number of addresses or prefixes; for IPv6, those that were assigned at least once.", 253)
    )
    available = fields.Integer(**describe("Free addresses that are not reserved, as listed by `available-ips`.", 240))
    reserved = fields.Integer(**describe("Reserved addresses.", 3))
    used = fields.Integer(**describe("Addresses used by instances.", 10))


class SubnetRow(Out):
    id = fields.String(**describe("Subnet id.", EXAMPLE_ID))
    name = fields.String(**describe("Unique name.", "fsn1-public-4"))
    hypervisor_group_id = fields.String(
        attribute="group_id", **describe("The hypervisor group that uses it.", EXAMPLE_ID)
    )
    hypervisor_group = fields.Nested(GroupRef, attribute="group", **describe("The hypervisor group that uses it."))
    family = fields.Integer(**describe("4 or 6.", 4))
    kind = fields.String(validate=validate.OneOf(SUBNET_KINDS), **describe(KIND_DESCRIPTION, "public"))
    cidr = fields.String(**describe("Range in CIDR notation.", "203.0.113.0/24"))
    delegated_length = fields.Integer(allow_none=True, **describe(DELEGATED_LENGTH_DESCRIPTION, None))
    gateway = fields.String(allow_none=True, **describe("The gateway. Never assigned to instances.", "203.0.113.1"))
    nameservers = fields.List(fields.String(), **describe("Name servers for instances.", ["203.0.113.1"]))
    enabled = fields.Boolean(**describe("Whether new instances get addresses from it.", True))
    created_at = Time(**describe("When it was added.", "2026-01-02T03:04:05.678Z"))
    updated_at = Time(**describe("When it last changed.", "2026-01-02T03:04:05.678Z"))


class SubnetOut(SubnetRow):
    statistics = fields.Nested(Statistics, **describe("Number of addresses by use."))


def nameservers_field(**options):
    return fields.List(
        Ip(),
        validate=validate.Length(max=8),
        **options,
        **describe("Name servers for instances.", ["9.9.9.9"]),
    )


class SubnetIn(In):
    name = Name(maximum=64, required=True, **describe("Unique name.", "fsn1-public-4"))
    hypervisor_group_id = Text(maximum=36, required=True, **describe("The hypervisor group that uses it.", EXAMPLE_ID))
    kind = fields.String(
        load_default="public", validate=validate.OneOf(SUBNET_KINDS), **describe(KIND_DESCRIPTION, "public")
    )
    cidr = Cidr(required=True, **describe("Range in CIDR notation; for IPv4 at most a /16.", "203.0.113.0/24"))
    delegated_length = Int(
        1, 127, load_default=None, allow_none=True, **describe(f"{DELEGATED_LENGTH_DESCRIPTION} Defaults to 64.", None)
    )
    gateway = Ip(
        load_default=None, allow_none=True, **describe("The gateway. Never assigned to instances.", "203.0.113.1")
    )
    nameservers = nameservers_field()
    enabled = Bool(**describe("Whether new instances get addresses from it.", True))


class SubnetPatch(Patch):
    name = Name(maximum=64, **describe("Unique name.", "fsn1-public-4"))
    nameservers = nameservers_field()
    enabled = Bool(**describe("Whether new instances get addresses from it.", False))


class HolderOut(Out):
    id = fields.String(attribute="instance_id", **describe("Instance id.", EXAMPLE_ID))
    name = fields.String(attribute="instance.name", **describe("Name assigned by the platform.", "h10000001"))


class SubnetAddressOut(Out):
    id = fields.String(**describe("Address id.", EXAMPLE_ID))
    ip = fields.String(**describe("The address; in a routed subnet the prefix.", "203.0.113.10"))
    family = fields.Integer(**describe("4 or 6.", 4))
    subnet_id = fields.String(**describe("The subnet it belongs to.", EXAMPLE_ID))
    interface_id = fields.String(allow_none=True, **describe("The interface it is assigned to.", None))
    instance = fields.Nested(
        HolderOut, attribute="interface", allow_none=True, **describe("The instance it is assigned to.")
    )
    reserved = fields.Boolean(**describe("Whether it is reserved and not assigned to instances.", False))
    note = fields.String(allow_none=True, **describe("Note for operators.", "second router"))
    rdns = fields.String(allow_none=True, **describe("Reverse DNS name.", None))


class FreeAddressOut(Out):
    id = fields.String(**describe("Address id.", EXAMPLE_ID))
    ip = fields.String(**describe("The address.", "203.0.113.10"))
    family = fields.Integer(**describe("4 or 6.", 4))
    subnet_id = fields.String(**describe("The subnet it belongs to.", EXAMPLE_ID))


class Prefix(Text):
    """An address or a network, converted to its shortest form."""

    def __init__(self, **options):
        super().__init__(maximum=49, **options)

    def _deserialize(self, value, attr, data, **kwargs):
        text = super()._deserialize(value, attr, data, **kwargs)
        try:
            network = ipaddress.ip_network(text)
        except ValueError:
            raise ValidationError(message("Must be an IP address or a prefix.")) from None
        return str(network if "/" in text else network.network_address)


class AddressIn(In):
    subnet_id = Text(maximum=36, required=True, **describe("Subnet id.", EXAMPLE_ID))
    ip = Prefix(required=True, **describe("The address; for a routed subnet the prefix.", "203.0.113.10"))
    reserved = Bool(load_default=False, **describe("Whether it is reserved and not assigned to instances.", True))
    note = Text(load_default=None, allow_none=True, **describe("Note for operators.", "second router"))


class AddressPatch(Patch):
    reserved = Bool(**describe("Whether it is reserved and not assigned to instances.", True))
    note = Text(allow_none=True, **describe("Note for operators; null removes it.", "second router"))


class SubnetQuery(PageQuery):
    search = fields.String(
        validate=validate.Length(max=255), metadata={"description": "Part of a name, or the start of a range."}
    )


class AddressQuery(PageQuery):
    search = fields.String(validate=validate.Length(max=45), metadata={"description": "The start of an address."})


class SubnetAddressQuery(AddressQuery):
    use = fields.String(validate=validate.OneOf(ADDRESS_USES), metadata={"description": "Only addresses in this use."})


class WholeQuery(PageQuery):
    """Paging for a list that is complete unless a page is requested."""

    per_page = QueryInt(
        validate=validate.Range(1, 100), metadata={"description": "Rows per page, 1 to 100. Defaults to all rows."}
    )
