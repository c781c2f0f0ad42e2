"""Which hypervisor groups an account may choose: the public ones, and those that it has a grant for.

A grant counts for new resources. What exists in a group goes on whoever may choose it, and can be changed and
destroyed.
"""

from sqlalchemy import delete, func, or_, select
from sqlalchemy.orm import contains_eager

from panel.core.db import session
from panel.core.errors import Invalid
from panel.models import Account, HypervisorGroup, Instance, LocationGrant, Member
from panel.services import accounts, audit


def choosable_condition(account):
    """The groups that the account may choose, as a condition; without an account all."""
    if account is None:
        return True
    granted = select(LocationGrant.group_id).where(LocationGrant.account_id == account.id)
    return or_(HypervisorGroup.public, HypervisorGroup.id.in_(granted))


def can_choose(group, account):
    return group.public or find(group, account.id) is not None


def find(group, account_id):
    held = select(LocationGrant).where(LocationGrant.group_id == group.id, LocationGrant.account_id == account_id)
    return session.scalar(held)


def select_grants(group, search=None):
    """The grants of a group, by the accounts' addresses."""
    query = select(LocationGrant).join(LocationGrant.account).options(contains_eager(LocationGrant.account))
    query = query.where(LocationGrant.group_id == group.id).order_by(Account.email)
    return query.where(Account.email.icontains(search, autoescape=True)) if search else query


def list_choosable(account):
    """Every group that the account may choose, each noting whether it is `granted`."""
    held = set(session.scalars(select(LocationGrant.group_id).where(LocationGrant.account_id == account.id)))
    query = (
        select(HypervisorGroup)
        .where(choosable_condition(account))
        .order_by(HypervisorGroup.display_name, HypervisorGroup.id)
    )
    found = session.scalars(query).all()
    for group in found:
        group.granted = group.id in held
    return found


def select_grantable(search=None):
    """Accounts that have resources of their own: not the members of teams, who use their owner's."""
    joined = select(Member.account_id).where(Member.account_id == Account.id).exists()
    return accounts.listing(search).where(~joined, Account.operator_role.is_(None))


def grant(group, account, field="account_id"):
    """Lets the account choose the group. It may have been so already."""
    ensure_not_member(account, field)
    if find(group, account.id) is None:
        session.add(LocationGrant(group_id=group.id, account_id=account.id))
        session.flush()
        audit.track(group, fields=("grants",))


def revoke(group, account):
    """The account cannot choose the group any more, unless that is public. It may have had no grant."""
    held = find(group, account.id)
    if held is not None:
        session.delete(held)
        session.flush()
        audit.track(group, fields=("grants",))


def ensure_not_member(account, field="account_ids"):
    if session.scalar(select(Member.id).where(Member.account_id == account.id)):
        sentence = f"{account.email} is in somebody's team. Grant it to the team's owner."
        raise Invalid(sentence, **{field: sentence})


def set_access(group, *, public, account_ids=None):
    """Opens the group to everybody or to accounts with a grant, and sets the grants if some are named."""
    group.public = public
    if account_ids is not None:
        wanted = get_accounts(account_ids)
        session.execute(delete(LocationGrant).where(LocationGrant.group_id == group.id))
        session.add_all(LocationGrant(group_id=group.id, account_id=account.id) for account in wanted)
        audit.track(group, fields=("grants",))
    session.flush()
    return with_counts(group)


def with_counts(group):
    """Notes on the group how many `select_grants` there are."""
    group.grants = session.scalar(select(func.count()).where(LocationGrant.group_id == group.id))
    return group


def get_accounts(account_ids):
    ids = set(account_ids)
    found = session.scalars(select(Account).where(Account.id.in_(ids))).all()
    if len(found) < len(ids):
        raise Invalid("One of the accounts does not exist.", account_ids="There is no such account.")
    for account in found:
        ensure_not_member(account)
    return found


def count_affected(group, *, public, account_ids=None):
    """Whom the change would close the group to, in numbers."""
    if public:
        return {"accounts": 0, "accounts_with_instances": 0, "instances": 0}
    held = select(LocationGrant.account_id).where(LocationGrant.group_id == group.id)
    kept = [each.id for each in get_accounts(account_ids)] if account_ids is not None else held
    losing = select_grantable().order_by(None).where(Account.id.not_in(kept))
    if not group.public:
        losing = losing.where(Account.id.in_(held))
    ids = losing.with_only_columns(Account.id)
    there = select(func.count(Instance.account_id.distinct()), func.count())
    owners, machines = session.execute(there.where(Instance.group_id == group.id, Instance.account_id.in_(ids))).one()
    total = session.scalar(select(func.count()).select_from(ids.subquery()))
    return {"accounts": total, "accounts_with_instances": owners, "instances": machines}
