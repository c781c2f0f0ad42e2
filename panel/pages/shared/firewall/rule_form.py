"""The form for rules of a security group. One submit can add a rule for each IP version."""

import ipaddress
import re

from marshmallow import ValidationError, fields, validate

from panel.core.db import session
from panel.core.errors import Invalid
from panel.models import IpSet, SecurityGroup
from panel.schemas.base import In, Text
from panel.schemas.constants import IP_VERSIONS, RULE_DIRECTIONS, RULE_PROTOCOLS
from panel.schemas.security_groups import SecurityRuleIn
from panel.services import security_groups
from panel.web.forms import flatten_errors
from panel.web.translation import gettext as _
from panel.web.translation import lazy_gettext

BOTH_VERSIONS = "both"
PORT_RANGE_PATTERN = re.compile(r"(\d{1,5})(?:\s*[-–]\s*(\d{1,5}))?")  # noqa: RUF001  (people copy the long dash, too)
RULE_PRESETS = {
    "ssh": ("SSH", "tcp", 22),
    "http": ("HTTP", "tcp", 80),
    "https": ("HTTPS", "tcp", 443),
    "ping": (lazy_gettext("Ping"), "icmp", None),
}
"""Inbound rules for one click: {name: (label, protocol, port)}"""
RULE_DEFAULTS = {"direction": "ingress", "protocol": "tcp", "ip_version": BOTH_VERSIONS}


class RuleForm(In):
    direction = fields.String(required=True, validate=validate.OneOf(RULE_DIRECTIONS))
    protocol = fields.String(required=True, validate=validate.OneOf(RULE_PROTOCOLS))
    ip_version = fields.String(required=True, validate=validate.OneOf((BOTH_VERSIONS, *IP_VERSIONS)))
    ports = Text(load_default=None)
    cidr = Text(maximum=49, load_default=None)
    remote_group_id = Text(maximum=36, load_default=None)
    ip_set_id = Text(maximum=36, load_default=None)
    description = Text(load_default=None)


def add_rules(group, account, *, actor, ip_version, ports=None, **values):
    """Add a rule for each chosen IP version and return them. Skips versions that have the rule already, unless all
    have it; then security_groups.add_rule refuses."""
    requested = build_rules(ip_version, ports, **values)
    new = [rule for rule in requested if not security_groups.has_rule(group, rule)] or requested
    return [security_groups.add_rule(group, account, actor=actor, **rule) for rule in new]


def build_rules(ip_version, ports=None, **values):
    """Return the validated rule for each chosen IP version."""
    low, high = parse_ports(ports)
    versions = list_possible_versions(values) if ip_version == BOTH_VERSIONS else [ip_version]
    return [
        validate_rule({**values, "ip_version": version, "port_range_min": low, "port_range_max": high})
        for version in versions
    ]


def add_preset(group, account, name, *, actor):
    """Add the inbound rules of a preset for both IP versions."""
    return add_rules(group, account, actor=actor, **build_preset(name))


def build_preset(name):
    label, protocol, port = RULE_PRESETS[name]
    values = {"direction": "ingress", "protocol": protocol, "description": str(label)}
    return {**values, "ip_version": BOTH_VERSIONS, "ports": port and str(port)}


def get_preset_group(account, names, *, actor):
    """Return the account's group that allows exactly these presets and has their name. Create it if there is none."""
    names = [name for name in RULE_PRESETS if name in names]
    group_name = ", ".join(str(RULE_PRESETS[name][0]) for name in names)
    rules = [rule for name in names for rule in build_rules(**build_preset(name))]
    query = security_groups.listing(account).where(
        SecurityGroup.name == group_name, SecurityGroup.account_id == account.id
    )
    for group in session.scalars(query):
        if len(security_groups.list_rules(group)) == len(rules) and all(
            security_groups.has_rule(group, rule) for rule in rules
        ):
            return group
    group = security_groups.create(account, name=group_name)
    for name in names:
        add_preset(group, account, name, actor=actor)
    return group


def parse_ports(text):
    """Return first and last port of `22` or `80-90`, (None, None) of an empty text. Raises Invalid."""
    if not text:
        return None, None
    match = PORT_RANGE_PATTERN.fullmatch(text.strip())
    if match is None:
        raise Invalid(_("Enter a port or port range."), ports=_("Enter a port or port range, like 22 or 80-90."))
    low, high = int(match[1]), int(match[2] or match[1])
    return low, high


def list_possible_versions(values):
    """Return the IP versions of a rule for both: only one when it has a network or an IP set."""
    if values.get("cidr"):
        try:
            return [f"ipv{ipaddress.ip_network(values['cidr'], strict=False).version}"]
        except ValueError:
            return ["ipv4"]  # the schema refuses it with an error at the field
    if values.get("ip_set_id"):
        ip_set = session.get(IpSet, values["ip_set_id"])
        return [ip_set.ip_version] if ip_set else list(IP_VERSIONS)
    return list(IP_VERSIONS)


def validate_rule(values):
    """Return the values validated by the API's schema. Errors of its two port fields move to `ports`."""
    if values["protocol"] in ("icmp", "icmpv6"):
        values["protocol"] = "icmp" if values["ip_version"] == "ipv4" else "icmpv6"
    try:
        return SecurityRuleIn().load({field: item for field, item in values.items() if item is not None})
    except ValidationError as error:
        messages = {field: flatten_errors(text) for field, text in error.normalized_messages().items()}
        ports = [messages.pop(field) for field in ("port_range_min", "port_range_max") if field in messages]
        if ports:
            messages["ports"] = ports[0]
        raise Invalid(_("Please correct the highlighted fields."), **messages) from None
