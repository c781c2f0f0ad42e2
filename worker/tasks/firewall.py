"""Applying rules, addresses, port speed and link state of interfaces to the node."""

from contextlib import suppress

from panel.core.errors import Conflict
from panel.core.messages import message
from panel.services import firewall, instances
from panel.services.firewall import APPLY_TASK_KIND
from worker.engine.registry import task_handler
from worker.nodes.base import FirewallRule, Nic, NotOnNode

DIRECTION_BY_RULE = {"ingress": "in", "egress": "out"}
MAX_RULES_PER_MACHINE = 1000
"""Rules of one machine. A node needs some hundredths of a second for each."""

DEFINING_TASKS = ("instance_start", "instance_unsuspend")
"""Tasks that update the interfaces themselves, possibly from rows that they read before the last change."""


@task_handler(APPLY_TASK_KIND, conflicts_with=(APPLY_TASK_KIND, *DEFINING_TASKS))
def apply(work):
    """Update the machine's interfaces from its rows. A machine that does not exist gets them when it is defined."""
    instance = instances.find_by_id(work.task.resource_id)
    if instance is None or not instance.deployed:
        return
    work.step(message("Updating firewall rules"), 20)
    nics = build_nics(instance)
    with suppress(NotOnNode):
        work.node.update_nics(instance.id, nics)


def build_nics(instance):
    """Return the NICs as the instance's rows describe them."""
    return build_nics_with(build_rules(instance), instance)


def build_nics_with(allowed, instance):
    return tuple(build_nic(interface, instance, allowed) for interface in instance.interfaces)


def build_nic(interface, instance, allowed):
    return Nic(
        mac=interface.mac,
        network=instance.hypervisor.network,
        addresses=tuple(address.ip for address in interface.addresses),
        prefixes=tuple(prefix.ip for prefix in interface.prefixes),
        inbound_mbps=interface.port_speed,
        outbound_mbps=interface.port_speed,
        allowed=allowed,
        mail=instance.enable_smtp,
        connected=interface.disconnect_reason is None,
    )


def build_rules(instance):
    """Return the allowed traffic as rules for the node; None for everything. Raise Conflict when there are too many."""
    rules = firewall.get_effective_rules(instance)
    if rules is None:
        return None
    every = tuple(node_rule for rule in rules for node_rule in expand_rule(rule))
    if len(every) > MAX_RULES_PER_MACHINE:
        raise Conflict(
            message(
                "The rules of its groups name {count} networks, but at most {maximum} are possible. Merge some.",
                count=len(every),
                maximum=MAX_RULES_PER_MACHINE,
            )
        )
    return every


def expand_rule(rule):
    """Yield the rule once for each network, as rules for the node."""
    protocol = "icmp" if rule.protocol == "icmpv6" else rule.protocol
    for network in (None,) if rule.networks is None else rule.networks:
        yield FirewallRule(DIRECTION_BY_RULE[rule.direction], rule.family, protocol, rule.ports, network)
