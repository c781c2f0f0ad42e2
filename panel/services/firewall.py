"""What the traffic of an instance must pass, and who has to be told when that changes.

* An instance in no group is open: everything may come in and go out.
* In at least one group, only what a rule allows may come in. Everything may go out, unless one of its groups has rules
  for going out: then only what those allow.
* The rules of all its groups add up. What was begun rightly is answered, whatever the rules say.
* A rule that refers to a group means the addresses of that group's instances that belong to the same account as the
  instance it protects: putting instances into one of the platform's groups opens nothing between customers.
* Port 25 out is shut for instances without `enable_smtp`, in a group or not.
"""

import ipaddress
from dataclasses import dataclass
from functools import cache

from sqlalchemy import bindparam, or_, select
from sqlalchemy.orm import selectinload

from panel.core import jobs
from panel.core.db import session
from panel.models import (
    Address,
    Instance,
    Interface,
    IpSet,
    SecurityGroup,
    SecurityGroupMember,
    SecurityRule,
    Task,
)

APPLY_TASK_KIND = "firewall_apply"
WAITING_STATUSES = ("pending", "queued")


@dataclass(frozen=True)
class EffectiveRule:
    """One rule with its names resolved. `networks` is None for everybody; an empty list means nobody."""

    direction: str
    protocol: str
    family: int
    ports: tuple[int, int] | None
    networks: tuple[str, ...] | None


def select_groups(instance):
    """The groups that an instance is in, by name."""
    inside = select(SecurityGroup).join(SecurityGroupMember).where(SecurityGroupMember.instance_id == instance.id)
    return inside.order_by(SecurityGroup.name, SecurityGroup.id)


def get_effective_rules(instance):
    """Everything that is allowed, or None when the instance is in no group. A constant number of queries."""
    found = get_groups_by_rule(instance)
    return None if found is None else tuple(found)


def get_groups_by_rule(instance):
    """The same, each with the groups whose rules allow it; with none what is allowed because no rule is about going
    out."""
    if session.connection().scalar(select_membership(), {"instance_id": instance.id}) is None:
        return None
    shown = selectinload(SecurityGroup.rules).joinedload(SecurityRule.ip_set).selectinload(IpSet.entries)
    groups = session.scalars(select_groups(instance).options(shown).execution_options(populate_existing=True)).all()
    if not groups:
        return None
    rules = [(rule, group) for group in groups for rule in group.rules]
    members = get_group_addresses({rule.remote_group_id for rule, _ in rules if rule.remote_group_id}, instance)
    found = {}
    for rule, group in rules:
        found.setdefault(resolve_rule(rule, members), []).append(group)
    if not any(rule.direction == "egress" for rule, _ in rules):
        found |= {EffectiveRule("egress", "all", family, None, None): [] for family in (4, 6)}
    return found


@cache
def select_membership():
    """Most instances are in no group, and this is a cheap question."""
    found = select(SecurityGroupMember.group_id).where(SecurityGroupMember.instance_id == bindparam("instance_id"))
    return found.limit(1)


def resolve_rule(rule, members):
    family = int(rule.ip_version.removeprefix("ipv"))
    ports = None if rule.port_range_min is None else (rule.port_range_min, rule.port_range_max)
    return EffectiveRule(rule.direction, rule.protocol, family, ports, resolve_networks(rule, family, members))


def resolve_networks(rule, family, members):
    """With whom, in as few networks as possible; None is everybody."""
    if rule.cidr:
        return (str(ipaddress.ip_network(rule.cidr, strict=False)),)
    if rule.ip_set:
        return collapse_networks(entry.cidr for entry in rule.ip_set.entries)
    if rule.remote_group_id:
        return collapse_networks(ip for ip in members.get(rule.remote_group_id, ()) if (":" in ip) == (family == 6))
    return None


def collapse_networks(found):
    return tuple(map(str, ipaddress.collapse_addresses(map(ipaddress.ip_network, found))))


def get_group_addresses(group_ids, instance):
    """By group: the addresses of its instances that are of the same account as this one."""
    held = select(SecurityGroupMember.group_id, Address.ip).join(
        Interface, Interface.instance_id == SecurityGroupMember.instance_id
    )
    held = held.join(Address, Address.interface_id == Interface.id).join(Instance, Instance.id == Interface.instance_id)
    held = held.where(SecurityGroupMember.group_id.in_(group_ids), Instance.account_id == instance.account_id)
    found = {}
    for group_id, ip in session.execute(held):
        found.setdefault(group_id, []).append(ip)
    return found


def apply_to_affected(*, groups=(), members_of=(), ip_sets=(), instances=(), actor="system"):
    """Has the rules applied anew on every machine that they reach: those in `groups` whose rules changed, those whose
    rules refer to a group of `members_of` (somebody came or went) or to one of `ip_sets`, and `instances` themselves.
    A machine that has to be told already is not told twice; one that is being made is told once it is there, because
    its making may have read the rules before."""
    referring = or_(
        SecurityRule.remote_group_id.in_(members_of), SecurityRule.ip_set_id.in_(ip_sets)
    )  # nothing refers to what is empty
    within = or_(
        SecurityGroupMember.group_id.in_(groups),
        SecurityGroupMember.group_id.in_(select(SecurityRule.group_id).where(referring)),
    )
    reached = or_(Instance.id.in_(instances), Instance.id.in_(select(SecurityGroupMember.instance_id).where(within)))
    session.flush()
    rows = session.scalars(select(Instance).where(reached, or_(Instance.deployed, Instance.rebuilding))).all()
    told = get_waiting_ids([row.id for row in rows])
    return [enqueue_apply(row, actor) for row in rows if row.id not in told]


def get_waiting_ids(instance_ids):
    """Those with a task that has not begun and will read what is true when it does. Locked, so that it does not begin
    before this transaction has ended."""
    open_ones = select(Task).where(
        Task.resource_id.in_(instance_ids), Task.kind == APPLY_TASK_KIND, Task.status.in_(WAITING_STATUSES)
    )
    return {task.resource_id for task in session.scalars(open_ones.with_for_update())}


def enqueue_apply(instance, actor):
    return jobs.enqueue(
        "firewall_apply", "instance", instance, lock="light", actor=actor, hypervisor_id=instance.hypervisor_id
    )


def apply_after_address_change(instance, actor="system"):
    """The instance got or lost addresses: its own filter changes, and those that let it in by its groups."""
    inside = session.scalars(
        select(SecurityGroupMember.group_id).where(SecurityGroupMember.instance_id == instance.id)
    ).all()
    return apply_to_affected(members_of=inside, instances=[instance.id], actor=actor)
