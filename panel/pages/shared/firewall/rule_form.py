"""The form for rules of a security group: one line of it may become a rule for each IP version."""

import ipaddress
import re

from marshmallow import ValidationError, fields, validate

from panel.core.db import session
from panel.core.errors import Invalid
from panel.models import IpSet
from panel.schemas.base import In, Text
from panel.schemas.constants import IP_VERSIONS, RULE_DIRECTIONS, RULE_PROTOCOLS
from panel.schemas.security_groups import SecurityRuleIn
from panel.services import security_groups
from panel.web.forms import flatten_errors

BOTH_VERSIONS = "both"
PORT_RANGE_PATTERN = re.compile(r"(\d{1,5})(?:\s*[-–]\s*(\d{1,5}))?")  # noqa: RUF001  (people copy the long dash, too)
RULE_PRESETS = {
    "ssh": ("SSH", "tcp", 22),
    "http": ("HTTP", "tcp", 80),
    "https": ("HTTPS", "tcp", 443),
    "ping": ("Ping", "icmp", None),
}
"""Inbound rules that people add with one click: label, protocol, port."""
RULE_DEFAULTS = {"direction": "ingress", "protocol": "tcp", "ip_version": BOTH_VERSIONS}


class RuleForm(In):
    direction = fields.String(required=True, validate=validate.OneOf(RULE_DIRECTIONS))
    protocol = fields.String(required=True, validate=validate.OneOf(RULE_PROTOCOLS))
    ip_version = fields.String(required=True, validate=validate.OneOf((BOTH_VERSIONS, *IP_VERSIONS)))
    ports = Text(load_default=None)
    cidr = Text(most=49, load_default=None)
    remote_group_id = Text(most=36, load_default=None)
    ip_set_id = Text(most=36, load_default=None)
    description = Text(load_default=None)


def add_rules(group, account, *, actor, ip_version, ports=None, **facts):
    """Adds a rule for each IP version that was chosen, and returns them. A version that has the rule is left out,
    unless all have it."""
    low, high = parse_ports(ports)
    versions = possible_versions(facts) if ip_version == BOTH_VERSIONS else [ip_version]
    wanted = [
        validate_rule({**facts, "ip_version": each, "port_range_min": low, "port_range_max": high}) for each in versions
    ]
    new = [each for each in wanted if not security_groups.has_rule(group, each)] or wanted
    return [security_groups.add_rule(group, account, actor=actor, **each) for each in new]


def add_preset(group, account, name, *, actor):
    """Adds the inbound rules of a preset for both IP versions."""
    label, protocol, port = RULE_PRESETS[name]
    facts = {"direction": "ingress", "protocol": protocol, "description": label}
    return add_rules(group, account, actor=actor, ip_version=BOTH_VERSIONS, ports=port and str(port), **facts)


def parse_ports(text):
    """The first and the last port of `22` or `80-90`; nothing of nothing."""
    if not text:
        return None, None
    found = PORT_RANGE_PATTERN.fullmatch(text.strip())
    if found is None:
        raise Invalid("Enter a port or port range.", ports="Enter a port or port range, like 22 or 80-90.")
    low, high = int(found[1]), int(found[2] or found[1])
    return low, high


def possible_versions(facts):
    """The versions that a rule for both can have: a network and an IP set are of one."""
    if facts.get("cidr"):
        try:
            return [f"ipv{ipaddress.ip_network(facts['cidr'], strict=False).version}"]
        except ValueError:
            return ["ipv4"]  # refused by the schema, at its field
    if facts.get("ip_set_id"):
        found = session.get(IpSet, facts["ip_set_id"])
        return [found.ip_version] if found else list(IP_VERSIONS)
    return list(IP_VERSIONS)


def validate_rule(facts):
    """The facts as the API's schema accepts them. What it says of ports belongs to the one field of the form."""
    if facts["protocol"] in ("icmp", "icmpv6"):
        facts["protocol"] = "icmp" if facts["ip_version"] == "ipv4" else "icmpv6"
    try:
        return SecurityRuleIn().load({name: value for name, value in facts.items() if value is not None})
    except ValidationError as error:
        found = {name: flatten_errors(text) for name, text in error.normalized_messages().items()}
        ports = [found.pop(name) for name in ("port_range_min", "port_range_max") if name in found]
        if ports:
            found["ports"] = "Enter a port or port range." if ports[0] == "Say which ports." else ports[0]
        raise Invalid("Please correct the highlighted fields.", **found) from None
