"""Finding instances."""

from functools import cache

from sqlalchemy import bindparam, exists, func, or_, select
from sqlalchemy.orm import joinedload, selectinload

from panel.core.db import session
from panel.core.errors import NotFound
from panel.models import (
    Account,
    Address,
    Disk,
    Hypervisor,
    HypervisorGroup,
    Instance,
    Interface,
    Plan,
    Rescue,
    SecurityGroupMember,
    Volume,
)
from panel.services.instances.search import build_conditions

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
"""What a page or payload of an instance reads: fetched with the list, in a constant number of queries."""


def listing(account=None, **wanted):
    """Newest first, as objects with everything a page shows of them. With an account, only its own."""
    return apply_filters(select(Instance).options(*DISPLAY_LOAD_OPTIONS), account, **wanted)


def select_rows(columns, account=None, **wanted):
    """The same list as plain rows of these columns: many times faster than objects, for lists of a hundred."""
    return apply_filters(select_columns(columns), account, **wanted)


def lookup_column(column, row):
    """A column of another table, looked up for each instance: a join would also burden the counting."""
    return select(column).where(row).scalar_subquery()


LOOKED_UP_COLUMNS = {
    "location_name": lookup_column(HypervisorGroup.display_name, HypervisorGroup.id == Instance.group_id),
    "owner_email": lookup_column(Account.email, Account.id == Instance.account_id),
    "hypervisor_name": lookup_column(Hypervisor.name, Hypervisor.id == Instance.hypervisor_id),
}


@cache
def select_columns(columns):
    found = (
        (LOOKED_UP_COLUMNS[name] if name in LOOKED_UP_COLUMNS else getattr(Instance, name)).label(name)
        for name in columns
    )
    return select(*found).select_from(Instance)


def apply_filters(query, account, *, search=None, state=None, hypervisor_id=None, project_id=None, pack_id=None):
    """`search` is in the language of panel.services.instances.search."""
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


def select_state_counts(account):
    """For each state, how many instances of the account are in it and what they cost a month. What is made from a
    resource pack costs nothing beside it."""
    price = func.coalesce(func.sum(Plan.price).filter(Instance.pack_id.is_(None)), 0)
    mine = select(Instance.state.label("state"), func.count(), price).join(Plan, Instance.plan)
    return mine.where(account.visible_rows(Instance)).group_by("state")


def with_problems(account):
    """Instances that need somebody: the last deploy failed, the node misses them, or the platform suspended them."""
    closed = Instance.suspended_reason.is_not(None) & (Instance.suspended_reason != "user")
    return listing(account).where(or_(Instance.last_error.is_not(None), Instance.lost, closed))


def get_self_provisioned_totals(account):
    """How many instances the account made by self-provisioning, and what they use in all."""
    sums = {name: func.coalesce(func.sum(getattr(Instance, name)), 0).label(name) for name in SIZE_COLUMNS}
    mine = select(func.count().label("instances"), *sums.values()).where(account.visible_rows(Instance))
    return dict(session.execute(mine.where(Instance.billing_mode == "self_provisioned")).one()._mapping)


def get(instance_id, account=None):
    """The instance, if it is there and (with an account) belongs to it."""
    instance = session.scalar(listing(account).where(Instance.id == instance_id))
    if instance is None:
        raise NotFound("No such instance.")
    return instance


WORKER_LOAD_OPTIONS = (
    joinedload(Instance.group),
    joinedload(Instance.hypervisor),
    joinedload(Instance.interfaces).joinedload(Interface.addresses),
    joinedload(Instance.interfaces).joinedload(Interface.prefixes),
    joinedload(Instance.disks).joinedload(Disk.on),
    joinedload(Instance.volumes).joinedload(Volume.on),
)
"""What the definition of its machine is made of."""


@cache
def fresh_options():
    found = select(Instance).where(Instance.id == bindparam("instance_id")).options(*WORKER_LOAD_OPTIONS)
    return found.execution_options(populate_existing=True)


@cache
def select_simple():
    """Nothing of these has to be asked for: they are not suspended, not in rescue, in no group, with empty drives."""
    grouped = exists().where(SecurityGroupMember.instance_id == Instance.id)
    rescued = exists().where(Rescue.instance_id == Instance.id)
    empty = Instance.iso_id.is_(None), Instance.secondary_iso_id.is_(None)
    found = select(Instance).where(Instance.id.in_(bindparam("instance_ids", expanding=True)), *empty)
    found = found.where(Instance.suspended_reason.is_(None), ~grouped, ~rescued).options(*WORKER_LOAD_OPTIONS)
    return found.execution_options(populate_existing=True)


def simple_instances(instance_ids):
    """Those of the instances whose machine is what their own rows say and no more, by id, read anew in one query."""
    return {row.id: row for row in session.scalars(select_simple(), {"instance_ids": instance_ids}).unique()}


def find_by_id(instance_id):
    """The instance or None, read anew: for workers, whose rows may have been changed by others."""
    return session.scalars(fresh_options(), {"instance_id": instance_id}).unique().one_or_none()


def select_addresses(instance):
    """Its addresses, without prefixes, in the order of its interfaces."""
    held = select(Address).join(Interface).where(Interface.instance_id == instance.id, Address.length.is_(None))
    return held.options(joinedload(Address.subnet)).order_by(Interface.position, Address.sort_key)


def select_disks(instance):
    return select(Disk).where(Disk.instance_id == instance.id).order_by(Disk.position, Disk.id)
