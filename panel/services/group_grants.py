"""Which hypervisor groups an account may choose: the public ones, and those that it has a location grant for.

A grant matters for new resources only. Existing ones in a group continue, and can be changed and destroyed, whoever may
choose the group.
"""

from collections.abc import Collection, Sequence

from sqlalchemy import ColumnElement, Select, delete, func, or_, select, true
from sqlalchemy.orm import contains_eager, with_expression

from panel.core.db import session
from panel.core.errors import Invalid
from panel.core.messages import message
from panel.models import Account, HypervisorGroup, Instance, LocationGrant, Member
from panel.services import accounts, audit
from panel.services.access import Access


def choosable_condition(account: Access | Account | None) -> ColumnElement[bool]:
    """Return the condition for the groups that the account may choose; without an account, all of them."""
    if account is None:
        return true()
    granted = select(LocationGrant.group_id).where(LocationGrant.account_id == account.id)
    return or_(HypervisorGroup.public, HypervisorGroup.id.in_(granted))


def can_choose(group: HypervisorGroup, account: Access | Account) -> bool:
    return group.public or find(group, account.id) is not None


def find(group: HypervisorGroup, account_id: str) -> LocationGrant | None:
    query = select(LocationGrant).where(LocationGrant.group_id == group.id, LocationGrant.account_id == account_id)
    return session.scalar(query)


def select_grants(group: HypervisorGroup, search: str | None = None) -> Select[LocationGrant]:
    """Select the grants of a group, by the accounts' email addresses."""
    query = select(LocationGrant).join(LocationGrant.account).options(contains_eager(LocationGrant.account))
    query = query.where(LocationGrant.group_id == group.id).order_by(Account.email)
    return query.where(Account.email.icontains(search, autoescape=True)) if search else query


def list_choosable(account: Access | Account) -> Sequence[HypervisorGroup]:
    """Return every group that the account may choose, each with `granted`."""
    granted_ids = select(LocationGrant.group_id).where(LocationGrant.account_id == account.id)
    query = (
        select(HypervisorGroup)
        .where(choosable_condition(account))
        .options(with_expression(HypervisorGroup.granted, HypervisorGroup.id.in_(granted_ids)))
        .order_by(HypervisorGroup.display_name, HypervisorGroup.id)
    )
    return session.scalars(query).all()


def select_grantable(search: str | None = None) -> Select[Account]:
    """Select accounts with resources of their own: no operators, and no team members, who use those of their team's
    owner."""
    is_member = select(Member.account_id).where(Member.account_id == Account.id).exists()
    return accounts.listing(search).where(~is_member, Account.operator_role.is_(None))


def grant(group: HypervisorGroup, account: Access | Account, error_field: str = "account_id") -> None:
    """Allow the account to choose the group. Harmless when it may already."""
    ensure_not_member(account, error_field)
    if find(group, account.id) is None:
        session.add(LocationGrant(group_id=group.id, account_id=account.id))
        session.flush()
        audit.track(group, fields=("grants",))


def revoke(group: HypervisorGroup, account: Access | Account) -> None:
    """Remove the account's grant, if there is one. A public group can still be chosen."""
    existing = find(group, account.id)
    if existing is not None:
        session.delete(existing)
        session.flush()
        audit.track(group, fields=("grants",))


def ensure_not_member(account: Access | Account, error_field: str = "account_ids") -> None:
    if session.scalar(select(Member.id).where(Member.account_id == account.id)):
        sentence = message("{email} is a team member. Grant it to the owner of the team.", email=account.email)
        raise Invalid(sentence, **{error_field: sentence})


def set_access(group: HypervisorGroup, *, public: bool, account_ids: Collection[str] | None = None) -> HypervisorGroup:
    """Open the group to everybody (`public`) or to accounts with a grant, and replace the grants if `account_ids` are
    given."""
    group.public = public
    if account_ids is not None:
        accounts_to_grant = get_accounts(account_ids)
        session.execute(delete(LocationGrant).where(LocationGrant.group_id == group.id))
        session.add_all(LocationGrant(group_id=group.id, account_id=account.id) for account in accounts_to_grant)
        audit.track(group, fields=("grants",))
    session.flush()
    return group


def get_accounts(account_ids: Collection[str]) -> Sequence[Account]:
    ids = set(account_ids)
    rows = session.scalars(select(Account).where(Account.id.in_(ids))).all()
    if len(rows) < len(ids):
        raise Invalid(message("One of the accounts does not exist."), account_ids=message("There is no such account."))
    for account in rows:
        ensure_not_member(account)
    return rows


def count_affected(
    group: HypervisorGroup, *, public: bool, account_ids: Collection[str] | None = None
) -> dict[str, int]:
    """Return how many accounts the change would exclude from the group, how many of them have instances there, and how
    many instances."""
    if public:
        return {"accounts": 0, "accounts_with_instances": 0, "instances": 0}
    granted = select(LocationGrant.account_id).where(LocationGrant.group_id == group.id)
    keeping = [row.id for row in get_accounts(account_ids)] if account_ids is not None else granted
    excluded = select_grantable().order_by(None).where(Account.id.not_in(keeping))
    if not group.public:
        excluded = excluded.where(Account.id.in_(granted))
    ids = excluded.with_only_columns(Account.id)
    query = select(func.count(Instance.account_id.distinct()), func.count())
    owners, machines = session.execute(query.where(Instance.group_id == group.id, Instance.account_id.in_(ids))).one()
    total = session.scalars(select(func.count()).select_from(ids.subquery())).one()
    return {"accounts": total, "accounts_with_instances": owners, "instances": machines}
