"""What passes on the cards of instances: rules, addresses, speed and cable, brought to what the rows say."""

from contextlib import suppress

from panel.core.errors import Conflict
from panel.services import firewall, instances
from panel.services.firewall import APPLY_TASK_KIND
from worker.engine.registry import task_handler
from worker.nodes.base import FirewallRule, Missing, Nic

DIRECTIONS = {"ingress": "in", "egress": "out"}
MAX_RULES_PER_MACHINE = 1000
"""Rules of a machine: a node takes some hundredths of a second for each."""

DEFINING_TASKS = ("instance_start", "instance_unsuspend")
"""Tasks that bring the cards up to date themselves, from rows that they may have read before the last change."""


@task_handler(APPLY_TASK_KIND, conflicts_with=(APPLY_TASK_KIND, *DEFINING_TASKS))
def apply(work):
    """Brings the cards of the machine to what its rows say now. One that is not there has nothing to be changed: it
    gets all of it when it is defined."""
    instance = instances.find_by_id(work.task.resource_id)
    if instance is None or not instance.deployed:
        return
    work.step("Changing what passes", 20)
    wanted = build_nics(instance)
    with suppress(Missing):
        work.node.update_nics(instance.id, wanted)


def build_nics(instance):
    """The network cards as the instance's rows describe them."""
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
        connected=interface.off is None,
    )


def build_rules(instance):
    """What is allowed, as nodes know it; None for everything. Raises when it is more than a node can be asked for."""
    found = firewall.get_effective_rules(instance)
    if found is None:
        return None
    every = tuple(each for rule in found for each in expand_rule(rule))
    if len(every) > MAX_RULES_PER_MACHINE:
        raise Conflict(
            f"The rules of its groups name {len(every)} networks, but {MAX_RULES_PER_MACHINE} are the most. Merge some."
        )
    return every


def expand_rule(rule):
    """The rule once for each network, as nodes know them."""
    protocol = "icmp" if rule.protocol == "icmpv6" else rule.protocol
    for network in (None,) if rule.networks is None else rule.networks:
        yield FirewallRule(DIRECTIONS[rule.direction], rule.family, protocol, rule.ports, network)
