"""Which traffic an instance may receive and send, and which machines are updated when that changes.

* An instance in no group is open: everything may come in and go out.
* In at least one group, only what a rule allows may come in. Everything may go out, unless one of its groups has egress
  rules: then only what those allow.
* The rules of all its groups add up. Replies to allowed connections pass whatever the rules are.
* A rule that refers to a group means the addresses of that group's instances that belong to the same account as the
  instance it protects: putting instances into one of the platform's groups opens nothing between customers.
* Outgoing port 25 is closed for instances without `enable_smtp`, in a group or not.
"""

import ipaddress
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from sqlalchemy import Select, bindparam, or_, select
from sqlalchemy.orm import selectinload

from panel.core import jobs
from panel.core.db import session
from panel.core.task_kinds import task_kind
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

APPLY_TASK_KIND = task_kind("firewall_apply", "Firewall update")
WAITING_STATUSES = ("pending", "queued")


@dataclass(frozen=True)
class EffectiveRule:
    """One rule with its names resolved. `networks` None is everybody; an empty tuple is nobody."""

    direction: str
    protocol: str
    family: int
    ports: tuple[int, int] | None
    networks: tuple[str, ...] | None


def select_groups(instance: Instance) -> Select[SecurityGroup]:
    """Select the groups of an instance, by name."""
    query = select(SecurityGroup).join(SecurityGroupMember).where(SecurityGroupMember.instance_id == instance.id)
    return query.order_by(SecurityGroup.name, SecurityGroup.id)


def get_effective_rules(instance: Instance) -> tuple[EffectiveRule, ...] | None:
    """Return everything that is allowed, or None when the instance is in no group. A constant number of queries."""
    rules = get_groups_by_rule(instance)
    return None if rules is None else tuple(rules)


def get_groups_by_rule(instance: Instance) -> dict[EffectiveRule, list[SecurityGroup]] | None:
    """Return each effective rule with the groups that it comes from, or None when the instance is in no group. The
    default rule "everything may go out" has no groups."""
    if session.connection().scalar(select_membership(), {"instance_id": instance.id}) is None:
        return None
    load_options = selectinload(SecurityGroup.rules).joinedload(SecurityRule.ip_set).selectinload(IpSet.entries)
    groups = session.scalars(
        select_groups(instance).options(load_options).execution_options(populate_existing=True)
    ).all()
    if not groups:
        return None
    rules = [(rule, group) for group in groups for rule in group.rules]
    members = get_group_addresses({rule.remote_group_id for rule, _ in rules if rule.remote_group_id}, instance)
    groups_by_rule: dict[EffectiveRule, list[SecurityGroup]] = {}
    for rule, group in rules:
        groups_by_rule.setdefault(resolve_rule(rule, members), []).append(group)
    if not any(rule.direction == "egress" for rule, _ in rules):
        groups_by_rule |= {EffectiveRule("egress", "all", family, None, None): [] for family in (4, 6)}
    return groups_by_rule


@cache
def select_membership() -> Select[str]:
    """Select one membership of an instance: a cheap query first, because most instances are in no group."""
    query = select(SecurityGroupMember.group_id).where(SecurityGroupMember.instance_id == bindparam("instance_id"))
    return query.limit(1)


def resolve_rule(rule: SecurityRule, members: Mapping[str, Iterable[str]]) -> EffectiveRule:
    family = int(rule.ip_version.removeprefix("ipv"))
    low, high = rule.port_range_min, rule.port_range_max
    ports = None if low is None else (low, high or low)  # both are set, or neither
    return EffectiveRule(rule.direction, rule.protocol, family, ports, resolve_networks(rule, family, members))


def resolve_networks(rule: SecurityRule, family: int, members: Mapping[str, Iterable[str]]) -> tuple[str, ...] | None:
    """Return the rule's networks, as few as possible; None is everybody."""
    if rule.cidr:
        return (str(ipaddress.ip_network(rule.cidr, strict=False)),)
    if rule.ip_set:
        return collapse_networks(entry.cidr for entry in rule.ip_set.entries)
    if rule.remote_group_id:
        return collapse_networks(ip for ip in members.get(rule.remote_group_id, ()) if (":" in ip) == (family == 6))
    return None


def collapse_networks(networks: Iterable[str]) -> tuple[str, ...]:
    parsed = map(ipaddress.ip_network, networks)
    return tuple(map(str, ipaddress.collapse_addresses(parsed)))  # type: ignore[type-var]  # all of one family


def get_group_addresses(group_ids: Collection[str], instance: Instance) -> dict[str, list[str]]:
    """Return by group the addresses of its instances that belong to the same account as this instance."""
    query = select(SecurityGroupMember.group_id, Address.ip).join(
        Interface, Interface.instance_id == SecurityGroupMember.instance_id
    )
    query = query.join(Address, Address.interface_id == Interface.id).join(
        Instance, Instance.id == Interface.instance_id
    )
    query = query.where(SecurityGroupMember.group_id.in_(group_ids), Instance.account_id == instance.account_id)
    addresses: dict[str, list[str]] = {}
    for group_id, ip in session.execute(query):
        addresses.setdefault(group_id, []).append(ip)
    return addresses


def apply_to_affected(
    *,
    groups: Collection[str] = (),
    members_of: Collection[str] = (),
    ip_sets: Collection[str] = (),
    instances: Collection[str] = (),
    actor: str = "system",
) -> list[Task]:
    """Enqueue tasks that apply the rules again on every machine that a change affects: those in `groups`, whose rules
    changed; those whose rules refer to a group of `members_of`, whose members changed, or to one of `ip_sets`; and
    `instances` themselves. A machine with a waiting task gets no second one. One that is being created also gets a
    task, because the deploy may have read the rules before the change."""
    referring = or_(
        SecurityRule.remote_group_id.in_(members_of), SecurityRule.ip_set_id.in_(ip_sets)
    )  # an empty list matches nothing
    memberships = or_(
        SecurityGroupMember.group_id.in_(groups),
        SecurityGroupMember.group_id.in_(select(SecurityRule.group_id).where(referring)),
    )
    affected = or_(
        Instance.id.in_(instances), Instance.id.in_(select(SecurityGroupMember.instance_id).where(memberships))
    )
    session.flush()
    rows = session.scalars(select(Instance).where(affected, or_(Instance.deployed, Instance.rebuilding))).all()
    waiting = get_waiting_ids([row.id for row in rows])
    return [enqueue_apply(row, actor) for row in rows if row.id not in waiting]


def get_waiting_ids(instance_ids: Collection[str]) -> set[str]:
    """Return the instances with a task that has not started and will therefore read the new rules. The tasks are
    locked, so that none starts before this transaction ends."""
    query = select(Task).where(
        Task.resource_id.in_(instance_ids), Task.kind == APPLY_TASK_KIND, Task.status.in_(WAITING_STATUSES)
    )
    return {task.resource_id for task in session.scalars(query.with_for_update())}


def enqueue_apply(instance: Instance, actor: str) -> Task:
    return jobs.enqueue(
        "firewall_apply", "instance", instance, lock="light", actor=actor, hypervisor_id=instance.hypervisor_id
    )


def apply_after_address_change(instance: Instance, actor: str = "system") -> list[Task]:
    """Apply the rules after the instance got or lost addresses: to itself, and to those whose rules refer to its
    groups."""
    group_ids = session.scalars(
        select(SecurityGroupMember.group_id).where(SecurityGroupMember.instance_id == instance.id)
    ).all()
    return apply_to_affected(members_of=group_ids, instances=[instance.id], actor=actor)
