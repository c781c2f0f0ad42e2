"""What the firewall of an instance comes to, to be shown."""

from panel.core.db import session
from panel.services import firewall


def describe(instance):
    """Its groups and what they allow together, as the node is told, each with the groups that it comes from. A constant
    number of queries."""
    allowed = firewall.get_groups_by_rule(instance)
    return {
        "restricted": allowed is not None,
        "smtp_blocked": not instance.enable_smtp,
        "security_groups": session.scalars(firewall.select_groups(instance)).all(),
        "rules": [describe_rule(each, groups) for each, groups in (allowed or {}).items()],
    }


def describe_rule(allowed, groups):
    low, high = allowed.ports or (None, None)
    return {
        "direction": allowed.direction,
        "protocol": allowed.protocol,
        "ip_version": f"ipv{allowed.family}",
        "port_range_min": low,
        "port_range_max": high,
        "networks": None if allowed.networks is None else list(allowed.networks),
        "security_groups": groups,
    }
