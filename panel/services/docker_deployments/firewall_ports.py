"""From where the ports of apps can be reached."""

from panel.services import firewall


def list_closed_ports(instance, ports):
    """Those of the ports (as in `ports`) that no rule of the machine's security groups lets anybody reach."""
    allowed = firewall.get_effective_rules(instance)
    if allowed is None:
        return []
    inward = [each for each in allowed if each.direction == "in" and each.networks != ()]
    return [port for port in ports if not any(is_port_allowed(each, port) for each in inward)]


def is_port_allowed(rule, port):
    if rule.protocol not in (port["protocol"], "all"):
        return False
    return rule.ports is None or rule.ports[0] <= port["host_port"] <= rule.ports[1]
