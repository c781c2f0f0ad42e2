"""API tokens and impersonations in the API."""

import ipaddress
from datetime import UTC

from marshmallow import ValidationError, fields, validate

from panel.core.messages import message
from panel.schemas.base import Bool, In, Int, Name, Out, PageQuery, Patch, Time, describe
from panel.schemas.constants import SCOPE_FAMILIES, SCOPES

EXAMPLE_ID = "0199c0a8-7d3e-7c4e-9d3c-0d2f8a5b6c7d"
EXAMPLE_TIME = "2026-01-02T03:04:05.678Z"
MAX_ADDRESSES = 100
PLATFORM_TOKEN_KINDS = ("admin", "billing")


class Scope(fields.String):
    """`<family>:read` or `<family>:write`."""

    def _deserialize(self, value, attr, data, **kwargs):
        scope = super()._deserialize(value, attr, data, **kwargs)
        if scope in SCOPES:
            return scope
        family = scope.partition(":")[0]
        if family not in SCOPE_FAMILIES:
            raise ValidationError(
                message(
                    "There is no scope family {family}. GET /api/api-token-scopes lists them.", family=repr(family[:64])
                )
            )
        raise ValidationError(message("Must be {family}:read or {family}:write.", family=family))


class Network(fields.String):
    """One address, or a network in CIDR notation, of IPv4 or IPv6."""

    def _deserialize(self, value, attr, data, **kwargs):
        text = super()._deserialize(value, attr, data, **kwargs).strip()
        try:
            network = ipaddress.ip_network(text) if "/" in text else ipaddress.ip_address(text)
        except ValueError:
            raise ValidationError(describe_network_error(text)) from None
        first = getattr(network, "network_address", network)
        if first.version == 6 and (first.scope_id or first.ipv4_mapped):
            raise ValidationError(
                message("Use plain IPv4 notation for IPv4 addresses, and no zone for IPv6 addresses.")
            )
        return str(network)


def describe_network_error(text):
    """Return what is wrong with the network, and what was perhaps meant."""
    try:
        network = ipaddress.ip_network(text, strict=False)
    except ValueError:
        return message("{text} is neither an IP address nor a network in CIDR notation.", text=repr(text[:64]))
    return message(
        "{text} is a host in the network {network}. Enter the host or the network.",
        text=text[:64],
        network=network,
    )


class Moment(fields.AwareDateTime):
    """An ISO 8601 time. Without an offset it is UTC."""

    def __init__(self, **options):
        super().__init__(format="iso", default_timezone=UTC, **options)

    def _deserialize(self, value, attr, data, **kwargs):
        try:
            return super()._deserialize(value, attr, data, **kwargs).astimezone(UTC)
        except OverflowError:
            raise self.make_error("invalid", input=value, obj_type=self.OBJ_TYPE) from None


def scopes_field(**options):
    some = validate.Length(1, error=message("Choose at least one scope."))
    text = describe("Scopes of the token: `<family>:read` and `<family>:write`.", ["instances:read"])
    return fields.List(Scope(), validate=some, **options, **text)


def allowed_ips_field(**options):
    few = validate.Length(max=MAX_ADDRESSES)
    text = describe(
        "Addresses and networks from which the token can be used, IPv4 and IPv6. Empty: all.",
        ["203.0.113.7", "2001:db8::/32"],
    )
    return fields.List(Network(), validate=few, **options, **text)


def name_field(**options):
    return Name(maximum=64, **options, **describe("Name of the token.", "CI of the shop"))


class TokenIn(In):
    name = name_field(required=True)
    scopes = scopes_field(required=True)
    allowed_ips = allowed_ips_field(load_default=list)
    expires_at = Moment(
        load_default=None,
        allow_none=True,
        **describe("Expiry, in the future. Null: never.", "2030-01-02T03:04:05Z"),
    )


class TokenPatch(Patch):
    name = name_field()
    scopes = scopes_field()
    allowed_ips = allowed_ips_field()
    expires_at = Moment(
        allow_none=True,
        **describe("Earlier expiry, in the future. It cannot be moved to a later time or removed.", EXAMPLE_TIME),
    )


class TokenQuery(PageQuery):
    include = fields.String(
        validate=validate.OneOf(["impersonation"]),
        **describe("`impersonation` also lists impersonation tokens for this user.", "impersonation"),
    )


class TokenOut(Out):
    id = fields.String(**describe("Token id.", EXAMPLE_ID))
    name = fields.String(**describe("Name of the token.", "CI of the shop"))
    prefix = fields.String(
        **describe("First characters of the token. The full value is only shown when it is created.", "pu_3kX9a")
    )
    kind = fields.String(**describe("`user`, or `impersonation` for a token created by an operator.", "user"))
    scopes = fields.List(fields.String(), **describe("Scopes.", ["instances:read"]))
    allowed_ips = fields.List(
        fields.String(), **describe("Addresses and networks from which it can be used. Empty: all.", [])
    )
    expires_at = Time(allow_none=True, **describe("Expiry; null if it never expires.", EXAMPLE_TIME))
    last_used_at = Time(allow_none=True, **describe("When it was last used, including refused requests.", EXAMPLE_TIME))
    last_used_ip = fields.String(allow_none=True, **describe("Address of the last request.", "203.0.113.7"))
    created_by = fields.String(allow_none=True, **describe("Creator of the token.", "ada@example.com"))
    created_at = Time(**describe("When it was created.", EXAMPLE_TIME))


class FamilyOut(Out):
    family = fields.String(**describe("Name of the family.", "instances"))
    description = fields.String(**describe("Description.", "Instances: ordering, power, backups, consoles, tasks"))
    scopes = fields.List(fields.String(), **describe("Scopes of the family.", ["instances:read", "instances:write"]))


class AccountTokenOut(TokenOut):
    account_id = fields.String(**describe("The user.", EXAMPLE_ID))
    enabled = fields.Boolean(**describe("Whether it is enabled.", True))


class PlatformTokenOut(Out):
    id = fields.String(**describe("Token id.", EXAMPLE_ID))
    kind = fields.String(**describe("`admin` or `billing`.", "admin"))
    name = fields.String(**describe("Name of the token.", "deployment"))
    description = fields.String(**describe("Description.", "Terraform of the platform team"))
    prefix = fields.String(
        **describe("First characters of the token. The full value is only shown when it is created.", "pa_3kX9a")
    )
    allowed_ips = fields.List(fields.String(), **describe("The address it is bound to.", ["203.0.113.7"]))
    enabled = fields.Boolean(**describe("Whether it is enabled.", True))
    last_used_at = Time(allow_none=True, **describe("When it was last used, including refused requests.", EXAMPLE_TIME))
    last_used_ip = fields.String(allow_none=True, **describe("Address of the last request.", "203.0.113.7"))
    created_at = Time(**describe("When it was created.", EXAMPLE_TIME))


class PlatformTokenQuery(PageQuery):
    kind = fields.String(
        validate=validate.OneOf(PLATFORM_TOKEN_KINDS), **describe("Only tokens of this kind.", "admin")
    )


class PlatformTokenPatch(Patch):
    enabled = Bool(required=True, **describe("False disables it immediately, true enables it again.", False))


class ImpersonationIn(In):
    scopes = scopes_field(load_default=None, allow_none=True)
    allowed_ips = allowed_ips_field(load_default=list, allow_none=True)
    expires_in = Int(
        60,
        3600,
        load_default=None,
        allow_none=True,
        **describe("Lifetime in seconds. Defaults to the platform setting, which is one hour unless changed.", 900),
    )


class ImpersonationOut(Out):
    token = fields.String(**describe("The token. Only returned in this response.", "pi_9f2…"))
    token_id = fields.String(**describe("Token id.", EXAMPLE_ID))
    expires_at = Time(**describe("Expiry.", EXAMPLE_TIME))
