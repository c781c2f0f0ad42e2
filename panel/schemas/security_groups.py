"""Security groups in the API. A rule's fields are returned exactly as they were sent; missing ones are null."""

import ipaddress

from marshmallow import ValidationError, fields, validate, validates_schema

from panel.core.messages import message
from panel.schemas.base import In, Int, Name, Out, PageQuery, Patch, Text, Time, describe
from panel.schemas.catalog import EXAMPLE_ID
from panel.schemas.constants import IP_VERSIONS, RULE_DIRECTIONS, RULE_PROTOCOLS

NAME_DESCRIPTION = describe("Name.", "Web servers")
NOTE_DESCRIPTION = describe("Description.", "Public web servers")
PROTOCOLS_WITH_PORTS = ("tcp", "udp")
PEER_FIELDS = ("cidr", "remote_group_id", "ip_set_id")

DIRECTION_DESCRIPTION = describe("`ingress`: inbound traffic. `egress`: outbound traffic.", "ingress")
PROTOCOL_DESCRIPTION = describe("Protocol.", "tcp")
VERSION_DESCRIPTION = describe("IP version.", "ipv4")
FIRST_PORT_DESCRIPTION = describe("First port; null for protocols without ports.", 80)
LAST_PORT_DESCRIPTION = describe("Last port; null for protocols without ports.", 443)
NETWORK_DESCRIPTION = describe("Peer network.", "203.0.113.0/24")
REMOTE_GROUP_DESCRIPTION = describe("Peer security group: all its instances.", None)
IP_SET_DESCRIPTION = describe("Peer IP set: all its networks.", None)
RULE_NOTE_DESCRIPTION = describe("Description.", "Browsers")


class SecurityRuleOut(Out):
    id = fields.String(**describe("Rule id.", EXAMPLE_ID))
    direction = fields.String(validate=validate.OneOf(RULE_DIRECTIONS), **DIRECTION_DESCRIPTION)
    protocol = fields.String(validate=validate.OneOf(RULE_PROTOCOLS), **PROTOCOL_DESCRIPTION)
    ip_version = fields.String(validate=validate.OneOf(IP_VERSIONS), **VERSION_DESCRIPTION)
    port_range_min = fields.Integer(allow_none=True, **FIRST_PORT_DESCRIPTION)
    port_range_max = fields.Integer(allow_none=True, **LAST_PORT_DESCRIPTION)
    cidr = fields.String(allow_none=True, **NETWORK_DESCRIPTION)
    remote_group_id = fields.String(allow_none=True, **REMOTE_GROUP_DESCRIPTION)
    ip_set_id = fields.String(allow_none=True, **IP_SET_DESCRIPTION)
    description = fields.String(allow_none=True, **RULE_NOTE_DESCRIPTION)


class SecurityGroupRow(Out):
    id = fields.String(**describe("Group id.", EXAMPLE_ID))
    name = fields.String(**NAME_DESCRIPTION)
    description = fields.String(allow_none=True, **NOTE_DESCRIPTION)
    is_global = fields.Boolean(
        **describe("Whether it belongs to the platform: all users can use it, only operators can change it.", False)
    )
    rules_count = fields.Integer(**describe("Number of rules.", 3))
    instances_count = fields.Integer(**describe("Number of instances in the group that the user can access.", 2))
    created_at = Time(**describe("When it was created.", "2026-01-02T03:04:05.678Z"))
    updated_at = Time(**describe("When it last changed.", "2026-01-02T03:04:05.678Z"))


class SecurityGroupOut(SecurityGroupRow):
    rules = fields.List(fields.Nested(SecurityRuleOut), **describe("Its rules."))


class AdminSecurityGroupRow(SecurityGroupRow):
    account_id = fields.String(allow_none=True, **describe("The owner; null if it belongs to the platform.", None))


class AttachedOut(Out):
    id = fields.String(**describe("Instance id.", EXAMPLE_ID))
    name = fields.String(attribute="display_name", **describe("Display name set by the customer.", "Shop front"))


class AdminSecurityGroupOut(AdminSecurityGroupRow, SecurityGroupOut):
    attached_instances = fields.List(fields.Nested(AttachedOut), **describe("Instances in the group."))


class SecurityGroupIn(In):
    name = Name(required=True, **NAME_DESCRIPTION)
    description = Text(load_default=None, allow_none=True, **NOTE_DESCRIPTION)


class AdminSecurityGroupIn(SecurityGroupIn):
    user_id = Text(
        maximum=36,
        load_default=None,
        allow_none=True,
        **describe("The owner. Defaults to the platform.", None),
    )


class SecurityGroupPatch(Patch):
    name = Name(**NAME_DESCRIPTION)
    description = Text(allow_none=True, **NOTE_DESCRIPTION)


def port_field(facts):
    return Int(1, 65535, load_default=None, allow_none=True, **facts)


class SecurityRuleIn(In):
    direction = fields.String(required=True, validate=validate.OneOf(RULE_DIRECTIONS), **DIRECTION_DESCRIPTION)
    protocol = fields.String(required=True, validate=validate.OneOf(RULE_PROTOCOLS), **PROTOCOL_DESCRIPTION)
    ip_version = fields.String(required=True, validate=validate.OneOf(IP_VERSIONS), **VERSION_DESCRIPTION)
    port_range_min = port_field(FIRST_PORT_DESCRIPTION)
    port_range_max = port_field(LAST_PORT_DESCRIPTION)
    cidr = Text(maximum=49, load_default=None, allow_none=True, **NETWORK_DESCRIPTION)
    remote_group_id = Text(maximum=36, load_default=None, allow_none=True, **REMOTE_GROUP_DESCRIPTION)
    ip_set_id = Text(maximum=36, load_default=None, allow_none=True, **IP_SET_DESCRIPTION)
    description = Text(load_default=None, allow_none=True, **RULE_NOTE_DESCRIPTION)

    @validates_schema
    def validate_ports(self, data, **_):
        low, high = data.get("port_range_min"), data.get("port_range_max")
        if data.get("protocol") in PROTOCOLS_WITH_PORTS:
            for name in ("port_range_min", "port_range_max"):
                if data.get(name) is None:
                    raise ValidationError(message("Enter a port or port range."), name)
            if low > high:
                raise ValidationError(message("Must not be less than the first port."), "port_range_max")
        elif low is not None or high is not None:
            raise ValidationError(message("This protocol has no ports."), "port_range_min")

    @validates_schema
    def validate_ip_version(self, data, **_):
        if (data.get("protocol"), data.get("ip_version")) in (("icmp", "ipv6"), ("icmpv6", "ipv4")):
            raise ValidationError(message("Must be icmp for ipv4 and icmpv6 for ipv6."), "protocol")
        if data.get("cidr") is None:
            return
        try:
            network = ipaddress.ip_network(data["cidr"], strict=False)
        except ValueError:
            raise ValidationError(message("Must be a network such as 203.0.113.0/24."), "cidr") from None
        if f"ipv{network.version}" != data.get("ip_version"):
            raise ValidationError(message("Must have the rule's IP version."), "cidr")

    @validates_schema
    def validate_single_peer(self, data, **_):
        named = [name for name in PEER_FIELDS if data.get(name) is not None]
        if len(named) > 1:
            raise ValidationError(message("Send at most one of cidr, remote_group_id and ip_set_id."), named[1])


class Members(In):
    instance_ids = fields.List(
        Text(maximum=36),
        required=True,
        validate=validate.Length(1, 500),
        **describe("Ids of the instances.", [EXAMPLE_ID]),
    )


class SecurityGroupQuery(PageQuery):
    search = fields.String(validate=validate.Length(max=255), metadata={"description": "Part of a name."})
