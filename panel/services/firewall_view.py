"""The effective firewall of an instance, for display."""

from collections.abc import Iterable
from typing import Any

from panel.core.db import session
from panel.models import Instance, SecurityGroup
from panel.services import firewall


def describe_firewall(instance: Instance) -> dict[str, Any]:
    """Return the instance's groups and their effective rules, each with the groups that it comes from. A constant
    number of queries."""
    groups_by_rule = firewall.get_groups_by_rule(instance)
    return {
        "restricted": groups_by_rule is not None,
        "smtp_blocked": not instance.enable_smtp,
        "security_groups": session.scalars(firewall.select_groups(instance)).all(),
        "rules": [describe_rule(rule, groups) for rule, groups in (groups_by_rule or {}).items()],
    }


def describe_rule(rule: firewall.EffectiveRule, groups: Iterable[SecurityGroup]) -> dict[str, Any]:
    low, high = rule.ports or (None, None)
    return {
        "direction": rule.direction,
        "protocol": rule.protocol,
        "ip_version": f"ipv{rule.family}",
        "port_range_min": low,
        "port_range_max": high,
        "networks": None if rule.networks is None else list(rule.networks),
        "security_groups": groups,
    }
