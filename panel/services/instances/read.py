"""Finding instances."""

from collections.abc import Sequence
from functools import cache
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, ScalarSelect, Select, bindparam, exists, func, select, text
from sqlalchemy.orm import InstrumentedAttribute, defer, joinedload, selectinload

from panel.core.db import session
from panel.core.errors import NotFound
from panel.core.messages import message
from panel.models import (
    Account,
    Address,
    Disk,
    Hypervisor,
    HypervisorGroup,
    Image,
    Instance,
    Interface,
    Plan,
    Rescue,
    SecurityGroupMember,
    Volume,
)
from panel.models.instances import HAS_PROBLEM_SQL
from panel.services.access import Access
from panel.services.instances.search import build_conditions
from panel.services.search_kinds import customer_search

Query = TypeVar("Query", bound=Select)

SIZE_COLUMNS = ("cpu_cores", "ram", "storage")

DISPLAY_LOAD_OPTIONS = (
    joinedload(Instance.group),
    joinedload(Instance.plan),
    joinedload(Instance.image),
    joinedload(Instance.iso),
    joinedload(Instance.secondary_iso),
    joinedload(Instance.hypervisor),
    joinedload(Instance.account),
    selectinload(Instance.interfaces).selectinload(Interface.addresses).joinedload(Address.subnet),
    selectinload(Instance.interfaces).selectinload(Interface.prefixes).joinedload(Address.subnet),
    selectinload(Instance.disks),
)
"""What a page or payload of an instance reads, loaded with the list in a constant number of queries."""

LIST_LOAD_OPTIONS = (
    joinedload(Instance.group, innerjoin=True).load_only(HypervisorGroup.display_name, HypervisorGroup.country),
    joinedload(Instance.plan, innerjoin=True).load_only(Plan.name),
    joinedload(Instance.image).load_only(Image.label, Image.distro, Image.type),
    joinedload(Instance.hypervisor, innerjoin=True).load_only(Hypervisor.name, Hypervisor.status),
    joinedload(Instance.account, innerjoin=True).load_only(Account.email),
    *(defer(column) for column in (Instance.vnc_password, Instance.ssh_host_key, Instance.presented_host_key)),
)
"""What a row of a list reads, loaded in one query."""


def describe_instance(instance: Instance) -> tuple[str, str]:
    """Return the name of an instance and what stands beside it in search results."""
    details = (instance.hostname, instance.ipv4, instance.state)
    return instance.display_name, " · ".join(text for text in details if text)


@customer_search("instance", "instances", permission="instances.view", position=10, describe=describe_instance)
def select_list_rows(account: Access | Account | None = None, **filters: Any) -> Select[Instance]:
    """Select the instances of `listing` with what rows of a list show."""
    return apply_filters(select(Instance).options(*LIST_LOAD_OPTIONS), account, **filters)


def listing(account: Access | Account | None = None, **filters: Any) -> Select[Instance]:
    """Select instances, newest first, as objects with everything that a page shows; with an account only its own."""
    return apply_filters(select(Instance).options(*DISPLAY_LOAD_OPTIONS), account, **filters)


def select_rows(columns: tuple[str, ...], account: Access | Account | None = None, **filters: Any) -> Select:
    """Select the same list as plain rows of these columns: many times faster than objects."""
    return apply_filters(select_columns(columns), account, **filters)


def lookup_column(column: InstrumentedAttribute[Any], condition: ColumnElement[bool]) -> ScalarSelect[Any]:
    """Return a subquery for a column of another table. A join would also slow down counting."""
    return select(column).where(condition).scalar_subquery()


LOOKUP_COLUMNS = {
    "location_name": lookup_column(HypervisorGroup.display_name, HypervisorGroup.id == Instance.group_id),
    "owner_email": lookup_column(Account.email, Account.id == Instance.account_id),
    "hypervisor_name": lookup_column(Hypervisor.name, Hypervisor.id == Instance.hypervisor_id),
}


@cache
def select_columns(columns: tuple[str, ...]) -> Select:
    selected = (
        (LOOKUP_COLUMNS[name] if name in LOOKUP_COLUMNS else getattr(Instance, name)).label(name) for name in columns
    )
    return select(*selected).select_from(Instance).execution_options(has_plain_rows=True)


def apply_filters(
    query: Query,
    account: Access | Account | None,
    *,
    search: str | None = None,
    state: str | None = None,
    hypervisor_id: str | None = None,
    project_id: str | None = None,
    pack_id: str | None = None,
) -> Query:
    """Add order and conditions. `search` is in the language of panel.services.instances.search."""
    query = query.order_by(Instance.id.desc())
    if account:
        query = query.where(account.visible_rows(Instance))
    if search:
        query = query.where(*build_conditions(search, by_operator=account is None))
    if state:
        query = query.where(Instance.state == state)
    if project_id:
        query = query.where(Instance.project_id == project_id)
    if pack_id:
        query = query.where(Instance.pack_id == pack_id)
    return query.where(Instance.hypervisor_id == hypervisor_id) if hypervisor_id else query


def select_state_counts(account: Access | Account) -> Select:
    """Select each state with the number of the account's instances and their monthly price. Instances from a resource
    pack have no price of their own."""
    price = func.coalesce(func.sum(Plan.price).filter(Instance.pack_id.is_(None)), 0)
    query = select(Instance.state.label("state"), func.count(), price).join(Plan, Instance.plan)
    return query.where(account.visible_rows(Instance)).group_by("state")


def select_with_problems(account: Access | Account) -> Select[Instance]:
    """Select instances that need attention: the last deploy failed, they are missing on the node, or the platform
    suspended them."""
    return select_list_rows(account).where(text(HAS_PROBLEM_SQL))


def get_self_provisioned_totals(account: Access | Account) -> dict[str, int]:
    """Return how many instances the account created by self-provisioning, and the sums of their sizes."""
    sums = {name: func.coalesce(func.sum(getattr(Instance, name)), 0).label(name) for name in SIZE_COLUMNS}
    query = select(func.count().label("instances"), *sums.values()).where(account.visible_rows(Instance))
    return dict(session.execute(query.where(Instance.billing_mode == "self_provisioned")).one()._mapping)


def get(instance_id: str, account: Access | Account | None = None) -> Instance:
    """Return the instance, if it exists and (with an account) the account may see it."""
    instance = session.scalar(listing(account).where(Instance.id == instance_id))
    if instance is None:
        raise NotFound(message("No such instance."))
    return instance


WORKER_LOAD_OPTIONS = (
    joinedload(Instance.group),
    joinedload(Instance.hypervisor),
    joinedload(Instance.interfaces).joinedload(Interface.addresses),
    joinedload(Instance.interfaces).joinedload(Interface.prefixes),
    joinedload(Instance.disks).joinedload(Disk.storage),
    joinedload(Instance.volumes).joinedload(Volume.storage),
)
"""What the machine spec is built from."""


@cache
def select_fresh() -> Select[Instance]:
    query = select(Instance).where(Instance.id == bindparam("instance_id")).options(*WORKER_LOAD_OPTIONS)
    return query.execution_options(populate_existing=True)


@cache
def select_simple() -> Select[Instance]:
    """Select those of the instances that need no further queries: not suspended, not in rescue, in no security group,
    with empty drives."""
    in_group = exists().where(SecurityGroupMember.instance_id == Instance.id)
    in_rescue = exists().where(Rescue.instance_id == Instance.id)
    drives_empty = Instance.iso_id.is_(None), Instance.secondary_iso_id.is_(None)
    query = select(Instance).where(Instance.id.in_(bindparam("instance_ids", expanding=True)), *drives_empty)
    query = query.where(Instance.suspended_reason.is_(None), ~in_group, ~in_rescue).options(*WORKER_LOAD_OPTIONS)
    return query.execution_options(populate_existing=True)


def get_simple_instances(instance_ids: Sequence[str]) -> dict[str, Instance]:
    """Return those of the instances whose machine spec depends on their own rows alone, by id, read again in one
    query."""
    return {row.id: row for row in session.scalars(select_simple(), {"instance_ids": instance_ids}).unique()}


def find_by_id(instance_id: str) -> Instance | None:
    """Return the instance, read again, or None. For workers, because another process may have changed the row."""
    return session.scalars(select_fresh(), {"instance_id": instance_id}).unique().one_or_none()


def select_addresses(instance: Instance) -> Select[Address]:
    """Select its addresses, without prefixes, in the order of its interfaces."""
    query = select(Address).join(Interface).where(Interface.instance_id == instance.id, Address.length.is_(None))
    return query.options(joinedload(Address.subnet)).order_by(Interface.position, Address.sort_key)


def select_disks(instance: Instance) -> Select[Disk]:
    return select(Disk).where(Disk.instance_id == instance.id).order_by(Disk.position, Disk.id)
