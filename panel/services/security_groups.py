"""Security groups: their rules, and which instances are in them. `panel.services.firewall` evaluates them.

Callers have been authorized. With an account only its own and the platform's groups are found, and only its own may be
changed. Instances of the account may be put into both.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, func, or_, select
from sqlalchemy.orm import joinedload, undefer, with_expression

from panel.core.db import lock_row, session
from panel.core.errors import Forbidden, Invalid, NotFound
from panel.core.messages import message
from panel.models import Account, Instance, IpSet, SecurityGroup, SecurityGroupMember, SecurityRule
from panel.services import audit, firewall, ip_sets
from panel.services.access import Access
from panel.services.crud import update_fields
from panel.services.ip_sets import visible_condition
from panel.services.search_kinds import customer_name_search, platform_search, select_by_name
from panel.services.state_machine import ensure_not_suspended

MAX_GROUPS_PER_INSTANCE, MAX_RULES_PER_GROUP = 10, 50
"""Maximum number of groups for each instance, and of rules for each group."""

SSH_PORT = 22

RULE_IDENTITY_COLUMNS = (
    "direction",
    "protocol",
    "ip_version",
    "port_range_min",
    "port_range_max",
    "cidr",
    "remote_group_id",
    "ip_set_id",
)
"""Two rules with the same values in these columns are duplicates."""


def listing(account: Access | Account | None = None, *, search: str | None = None) -> Select[SecurityGroup]:
    query = select(SecurityGroup).where(visible_condition(SecurityGroup, account))
    query = query.order_by(SecurityGroup.name, SecurityGroup.id)
    return query.where(SecurityGroup.name.icontains(search, autoescape=True)) if search else query


def get(group_id: str, account: Access | Account | None = None, *, error_field: str | None = None) -> SecurityGroup:
    """Return the group. With `error_field`, an unknown id is an Invalid of that field of the request."""
    group = session.scalar(listing(account).where(SecurityGroup.id == group_id))
    if group is None and error_field:
        raise Invalid(message("No such security group."), **{error_field: message("No such security group.")})
    if group is None:
        raise NotFound(message("No such security group."))
    return group


def get_own(group_id: str, account: Access | Account | None = None) -> SecurityGroup:
    """Return the group, to be changed. Only operators change the platform's groups."""
    group = get(group_id, account)
    if account and group.is_global:
        raise Forbidden(message("This group belongs to the platform, so it cannot be changed here."))
    return group


def with_counts(query: Select[SecurityGroup], account: Access | Account | None = None) -> Select[SecurityGroup]:
    """Load with each group the number of its rules, and of its instances that the account may see."""
    members = (
        select(func.count()).select_from(SecurityGroupMember).where(SecurityGroupMember.group_id == SecurityGroup.id)
    )
    if account:
        members = members.where(Instance.id == SecurityGroupMember.instance_id, account.visible_rows(Instance))
    count = members.correlate(SecurityGroup).scalar_subquery()
    return query.options(undefer(SecurityGroup.rules_count), with_expression(SecurityGroup.instances_count, count))


def load_counts(group: SecurityGroup, account: Access | Account | None = None) -> SecurityGroup:
    """Read the group again, with its counts."""
    query = with_counts(select(SecurityGroup).where(SecurityGroup.id == group.id), account)
    return session.scalars(query.execution_options(populate_existing=True)).one()


def select_instances(group: SecurityGroup, account: Access | Account | None = None) -> Select[Instance]:
    """Select the instances in the group, by name; with an account only those that it may see."""
    query = select(Instance).join(SecurityGroupMember, SecurityGroupMember.instance_id == Instance.id)
    query = query.where(
        SecurityGroupMember.group_id == group.id, *([account.visible_rows(Instance)] if account else [])
    )
    return query.order_by(Instance.display_name, Instance.id)


def select_other_instances(group: SecurityGroup, account: Access | Account) -> Select[Instance]:
    """Select the account's instances that are not in the group."""
    member_ids = select(SecurityGroupMember.instance_id).where(SecurityGroupMember.group_id == group.id)
    query = select(Instance).where(account.visible_rows(Instance), Instance.id.not_in(member_ids))
    return query.order_by(Instance.display_name, Instance.id)


def list_rules(group: SecurityGroup) -> Sequence[SecurityRule]:
    """Return the group's rules with the groups and sets they refer to, in the order of their creation."""
    load_options = joinedload(SecurityRule.remote_group), joinedload(SecurityRule.ip_set)
    return session.scalars(
        select(SecurityRule).where(SecurityRule.group_id == group.id).options(*load_options).order_by(SecurityRule.id)
    ).all()


def create(account: Access | Account | None, *, name: str, description: str | None = None) -> SecurityGroup:
    """Create a group without rules; without an account a group of the platform."""
    group = SecurityGroup(account_id=account and account.id, name=name, description=description)
    session.add(group)
    session.flush()
    return group


def update(group: SecurityGroup, **changes: Any) -> SecurityGroup:
    return update_fields(group, changes)


def delete(group: SecurityGroup, *, actor: str) -> None:
    """Delete the group and the rules of other groups that refer to it. Its instances lose its rules."""
    session.flush()
    instance_ids = [member.instance_id for member in group.members]
    referring = select(SecurityRule.group_id).where(SecurityRule.remote_group_id == group.id)
    referring_ids = set(session.scalars(referring)) - {group.id}
    session.delete(group)
    session.flush()
    firewall.apply_to_affected(groups=referring_ids, instances=instance_ids, actor=actor)


def add_rule(
    group: SecurityGroup, account: Access | Account | None = None, *, actor: str, **facts: Any
) -> SecurityRule:
    """Add a rule.

    What it refers to must belong to the account or to the platform; the platform's groups refer to nothing of a
    customer.
    """
    owner = account if group.account_id else None
    if facts.get("remote_group_id"):
        other = get(facts["remote_group_id"], owner, error_field="remote_group_id")
        ensure_same_owner(group, other, "remote_group_id")
    if facts.get("ip_set_id"):
        ip_set = ip_sets.get(facts["ip_set_id"], owner, error_field="ip_set_id")
        ensure_same_owner(group, ip_set, "ip_set_id")
        if ip_set.ip_version != facts["ip_version"]:
            raise Invalid(
                message("The set has another IP version."),
                ip_set_id=message("It holds {ip_version} networks.", ip_version=ip_set.ip_version),
            )
    lock_row(SecurityGroup, group.id)  # concurrent calls are counted one after the other
    existing = list_rules(group)
    if any(is_same_rule(rule, facts) for rule in existing):
        raise Invalid(
            message("The group already has this rule."), direction=message("There is a rule like this already.")
        )
    if len(existing) >= MAX_RULES_PER_GROUP:
        raise Invalid(
            message("The group is full."),
            direction=message("A group has at most {maximum} rules.", maximum=MAX_RULES_PER_GROUP),
        )
    rule = SecurityRule(group_id=group.id, **facts)
    session.add(rule)
    session.flush()
    session.expire(group, ["rules"])
    firewall.apply_to_affected(groups=[group.id], actor=actor)
    return rule


def has_rule(group: SecurityGroup, facts: Mapping[str, Any]) -> bool:
    """Return whether the group has the same rule."""
    return any(is_same_rule(rule, facts) for rule in list_rules(group))


def is_same_rule(rule: SecurityRule, facts: Mapping[str, Any]) -> bool:
    return all(getattr(rule, field) == facts.get(field) for field in RULE_IDENTITY_COLUMNS)


def ssh_condition() -> ColumnElement[bool]:
    """Return the condition for rules that allow SSH to come in, whatever its source."""
    first, last = SecurityRule.port_range_min, SecurityRule.port_range_max
    has_port = or_(first.is_(None), and_(first <= SSH_PORT, func.coalesce(last, first) >= SSH_PORT))
    protocols = or_(SecurityRule.protocol == "all", and_(SecurityRule.protocol == "tcp", has_port))
    return and_(SecurityRule.direction == "ingress", protocols)


def allows_ssh(group_ids: Collection[str]) -> bool:
    """Return whether a rule of these groups allows SSH to come in."""
    query = select(SecurityRule.id).where(SecurityRule.group_id.in_(group_ids), ssh_condition())
    return session.scalar(query.limit(1)) is not None


def list_ssh_losers(
    instance_ids: Collection[str],
    *,
    joined: SecurityGroup | None = None,
    left: SecurityGroup | None = None,
    removed_rule_id: str | None = None,
) -> Sequence[Instance]:
    """Return those of the instances to which SSH is allowed now, but not after joining or leaving a group, or without
    a rule."""
    members = select(SecurityGroupMember.instance_id, SecurityGroupMember.group_id)
    memberships: dict[str, set[str]] = {instance_id: set() for instance_id in instance_ids}
    for instance_id, group_id in session.execute(members.where(SecurityGroupMember.instance_id.in_(instance_ids))):
        memberships[instance_id].add(group_id)
    group_ids = {group.id for group in (joined, left) if group}.union(*memberships.values())
    rules = select(SecurityRule.id, SecurityRule.group_id).where(SecurityRule.group_id.in_(group_ids), ssh_condition())
    group_by_rule = dict(session.execute(rules).all())
    open_before = set(group_by_rule.values())
    open_after = {group_id for rule_id, group_id in group_by_rule.items() if rule_id != removed_rule_id}
    losers = []
    for instance_id, before in memberships.items():
        after = (before | {joined.id} if joined else before) - {left and left.id}
        if (not before or before & open_before) and after and not after & open_after:
            losers.append(instance_id)
    return session.scalars(select(Instance).where(Instance.id.in_(losers)).order_by(Instance.display_name)).all()


def list_member_ids(group: SecurityGroup) -> Sequence[str]:
    """Return the ids of the instances in the group."""
    query = select(SecurityGroupMember.instance_id).where(SecurityGroupMember.group_id == group.id)
    return session.scalars(query).all()


def list_visible(instance_ids: Collection[str], account: Access | Account | None = None) -> Sequence[Instance]:
    """Return those of the instances that the account may see; operators see all."""
    query = select(Instance).where(Instance.id.in_(instance_ids))
    return session.scalars(query.where(account.visible_rows(Instance)) if account else query).all()


def ensure_same_owner(group: SecurityGroup, other: SecurityGroup | IpSet, error_field: str) -> None:
    """Raise Invalid if `other` belongs to another customer than the group.

    Operators see everything, but a customer's group must not refer to another customer's.
    """
    if other.account_id not in (None, group.account_id):
        raise Invalid(
            message("It belongs to another account."), **{error_field: message("It belongs to another account.")}
        )


def remove_rule(group: SecurityGroup, rule_id: str, *, actor: str) -> None:
    rule = session.scalar(select(SecurityRule).where(SecurityRule.id == rule_id, SecurityRule.group_id == group.id))
    if rule is None:
        raise NotFound(message("No such rule."))
    session.delete(rule)
    session.flush()
    session.expire(group, ["rules"])
    firewall.apply_to_affected(groups=[group.id], actor=actor)


def attach(
    group: SecurityGroup, instance_ids: Collection[str], account: Access | Account | None = None, *, actor: str
) -> None:
    """Put instances into the group, all or none. Those that are in it already stay."""
    instances = lock_instances(group, instance_ids, account)
    ids = [instance.id for instance in instances]
    member_ids = set(
        session.scalars(select(SecurityGroupMember.instance_id).where(SecurityGroupMember.group_id == group.id))
    )
    query = select(SecurityGroupMember.instance_id, func.count()).where(SecurityGroupMember.instance_id.in_(ids))
    counts = dict(session.execute(query.group_by(SecurityGroupMember.instance_id)).all())
    added = [instance for instance in instances if instance.id not in member_ids]
    for instance in added:
        if counts.get(instance.id, 0) >= MAX_GROUPS_PER_INSTANCE:
            sentence = message(
                "{instance} is already in {maximum} groups, which is the maximum.",
                instance=instance.display_name,
                maximum=MAX_GROUPS_PER_INSTANCE,
            )
            raise Invalid(sentence, instance_ids=sentence)
    session.add_all(SecurityGroupMember(group_id=group.id, instance_id=instance.id) for instance in added)
    session.flush()
    apply_membership_change(group, added, actor)


def detach(
    group: SecurityGroup, instance_ids: Collection[str], account: Access | Account | None = None, *, actor: str
) -> None:
    """Take instances out of the group. Those that are not in it are ignored."""
    ids = [instance.id for instance in lock_instances(group, instance_ids, account)]
    query = select(SecurityGroupMember).where(
        SecurityGroupMember.group_id == group.id, SecurityGroupMember.instance_id.in_(ids)
    )
    members = session.scalars(query.options(joinedload(SecurityGroupMember.instance))).all()
    for member in members:
        session.delete(member)
    session.flush()
    apply_membership_change(group, [member.instance for member in members], actor)


def lock_instances(
    group: SecurityGroup, instance_ids: Collection[str], account: Access | Account | None
) -> Sequence[Instance]:
    """Lock and return the instances with these ids.

    With an account, it must see them; operators get those of the group's owner.
    """
    query = select(Instance).where(Instance.id.in_(instance_ids)).with_for_update(key_share=True, of=Instance)
    if account:
        query = query.where(account.visible_rows(Instance))
    elif group.account_id:
        query = query.where(Instance.account_id == group.account_id)
    rows = session.scalars(query.order_by(Instance.id)).all()
    if len(rows) < len(set(instance_ids)):
        raise Invalid(
            message("One of the instances does not exist."), instance_ids=message("There is no such instance.")
        )
    for instance in rows if account else ():
        ensure_not_suspended(instance)
    return rows


def apply_membership_change(group: SecurityGroup, instances: Sequence[Instance], actor: str) -> None:
    session.expire(group, ["members"])
    if instances:
        audit.track(group)
        firewall.apply_to_affected(
            members_of=[group.id], instances=[instance.id for instance in instances], actor=actor
        )


def list_memberships(instance: Instance, account: Access | Account | None = None) -> list[tuple[SecurityGroup, bool]]:
    """Return pairs, by name: each group that the owner may choose, and whether the instance is in it."""
    member_of = {group.id for group in session.scalars(firewall.select_groups(instance))}
    return [(group, group.id in member_of) for group in session.scalars(listing(account))]


def on_instance_removed(instance: Instance) -> None:
    """Take an instance that is about to be removed out of its groups.

    Its addresses may be assigned to another customer, so rules of other instances must no longer allow them.
    """
    query = select(SecurityGroupMember).where(SecurityGroupMember.instance_id == instance.id)
    members = session.scalars(query).all()
    for member in members:
        session.delete(member)
    session.flush()
    firewall.apply_to_affected(members_of=[member.group_id for member in members])


@customer_name_search("security_group", "security groups", permission="security_groups.view", position=24)
def select_own_by_name(access: Access, search: str) -> Select[str, str, str | None]:
    query = select_by_any_name(search)
    return query.where(visible_condition(SecurityGroup, access))


@platform_search("security_group", permission="admin:security_groups:read", position=62)
def select_by_any_name(text: str) -> Select[str, str, str | None]:
    return select_by_name(SecurityGroup, SecurityGroup.name, SecurityGroup.description, text)
