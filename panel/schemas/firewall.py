"""All firewall rules of an instance in the API."""

from marshmallow import fields

from panel.schemas.base import Out, about
from panel.schemas.catalog import EXAMPLE_ID


class GroupInEffect(Out):
    id = fields.String(**about("Group id.", EXAMPLE_ID))
    name = fields.String(**about("What it is called.", "Web servers"))
    is_global = fields.Boolean(**about("Whether it is the platform's.", False))


class RuleInEffect(Out):
    direction = fields.String(**about("`ingress` is what may reach it, `egress` what it may begin.", "ingress"))
    protocol = fields.String(**about("Which traffic.", "tcp"))
    ip_version = fields.String(**about("Of which version.", "ipv4"))
    port_range_min = fields.Integer(allow_none=True, **about("The first port; null: all.", 80))
    port_range_max = fields.Integer(allow_none=True, **about("The last port; null: all.", 443))
    networks = fields.List(
        fields.String(),
        allow_none=True,
        **about("With whom, names looked up; null: everybody; empty: nobody at the moment.", ["203.0.113.0/24"]),
    )
    security_groups = fields.List(
        fields.Nested(GroupInEffect),
        **about("The groups whose rules allow it; empty: it passes because no rule is about going out."),
    )


class FirewallOut(Out):
    restricted = fields.Boolean(**about("Whether it is in a group: else everything may pass.", True))
    smtp_blocked = fields.Boolean(**about("Whether port 25 of others is shut for it, whatever the rules say.", False))
    security_groups = fields.List(fields.Nested(GroupInEffect), **about("The groups that it is in."))
    rules = fields.List(fields.Nested(RuleInEffect), **about("What may begin, of all groups together, each once."))
