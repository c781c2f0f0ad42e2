"""All firewall rules of an instance in the API."""

from marshmallow import fields

from panel.schemas.base import Out, describe
from panel.schemas.catalog import EXAMPLE_ID


class GroupInEffect(Out):
    id = fields.String(**describe("Group id.", EXAMPLE_ID))
    name = fields.String(**describe("What it is called.", "Web servers"))
    is_global = fields.Boolean(**describe("Whether it is the platform's.", False))


class RuleInEffect(Out):
    direction = fields.String(**describe("`ingress` is what may reach it, `egress` what it may begin.", "ingress"))
    protocol = fields.String(**describe("Which traffic.", "tcp"))
    ip_version = fields.String(**describe("Of which version.", "ipv4"))
    port_range_min = fields.Integer(allow_none=True, **describe("The first port; null: all.", 80))
    port_range_max = fields.Integer(allow_none=True, **describe("The last port; null: all.", 443))
    networks = fields.List(
        fields.String(),
        allow_none=True,
        **describe("With whom, names looked up; null: everybody; empty: nobody at the moment.", ["203.0.113.0/24"]),
    )
    security_groups = fields.List(
        fields.Nested(GroupInEffect),
        **describe("The groups whose rules allow it; empty: it passes because no rule is about going out."),
    )


class FirewallOut(Out):
    restricted = fields.Boolean(**describe("Whether it is in a group: else everything may pass.", True))
    smtp_blocked = fields.Boolean(
        **describe("Whether port 25 of others is shut for it, whatever the rules say.", False)
    )
    security_groups = fields.List(fields.Nested(GroupInEffect), **describe("The groups that it is in."))
    rules = fields.List(fields.Nested(RuleInEffect), **describe("What may begin, of all groups together, each once."))
