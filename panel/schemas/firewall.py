"""All firewall rules of an instance in the API."""

from marshmallow import fields

from panel.schemas.base import Out, describe
from panel.schemas.catalog import EXAMPLE_ID


class GroupInEffect(Out):
    id = fields.String(**describe("Group id.", EXAMPLE_ID))
    name = fields.String(**describe("Name.", "Web servers"))
    is_global = fields.Boolean(**describe("Whether it belongs to the platform.", False))


class RuleInEffect(Out):
    direction = fields.String(**describe("`ingress`: inbound traffic. `egress`: outbound traffic.", "ingress"))
    protocol = fields.String(**describe("Protocol.", "tcp"))
    ip_version = fields.String(**describe("IP version.", "ipv4"))
    port_range_min = fields.Integer(allow_none=True, **describe("First port; null for all ports.", 80))
    port_range_max = fields.Integer(allow_none=True, **describe("Last port; null for all ports.", 443))
    networks = fields.List(
        fields.String(),
        allow_none=True,
        **describe(
            "Peer networks, with groups and IP sets resolved; null for any address, empty if there is currently none.",
            ["203.0.113.0/24"],
        ),
    )
    security_groups = fields.List(
        fields.Nested(GroupInEffect),
        **describe("Groups with this rule; empty if the traffic is allowed because no group has outbound rules."),
    )


class FirewallOut(Out):
    restricted = fields.Boolean(
        **describe("Whether the instance is in a security group. If not, all traffic is allowed.", True)
    )
    smtp_blocked = fields.Boolean(
        **describe("Whether outbound SMTP (port 25) is blocked regardless of the rules.", False)
    )
    security_groups = fields.List(fields.Nested(GroupInEffect), **describe("Security groups of the instance."))
    rules = fields.List(fields.Nested(RuleInEffect), **describe("Combined rules of all groups, without duplicates."))
