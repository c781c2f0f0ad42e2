"""Which ports of apps the firewall lets through."""

from collections.abc import Iterable
from typing import Any

from panel.models import Instance
from panel.services import firewall


def list_closed_ports(instance: Instance, ports: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return those of the ports (dicts as in `DockerDeployment.ports`) that no rule of the instance's security groups
    opens."""
    allowed = firewall.get_effective_rules(instance)
    if allowed is None:
        return []
    ingress = [rule for rule in allowed if rule.direction == "ingress" and rule.networks != ()]
    return [port for port in ports if not any(is_port_allowed(rule, port) for rule in ingress)]


def is_port_allowed(rule: firewall.EffectiveRule, port: dict[str, Any]) -> bool:
    if rule.protocol not in (port["protocol"], "all"):
        return False
    return rule.ports is None or rule.ports[0] <= port["host_port"] <= rule.ports[1]
