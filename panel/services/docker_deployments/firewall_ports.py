"""From where the ports of apps can be reached."""

from panel.services import firewall


def shut(instance, ports):
    """Those of the ports (as in `ports`) that no rule of the machine's security groups lets anybody reach."""
    allowed = firewall.in_effect(instance)
    if allowed is None:
        return []
    inward = [each for each in allowed if each.direction == "in" and each.networks != ()]
    return [port for port in ports if not any(lets(each, port) for each in inward)]


def lets(rule, port):
    if rule.protocol not in (port["protocol"], "all"):
        return False
    return rule.ports is None or rule.ports[0] <= port["host_port"] <= rule.ports[1]
