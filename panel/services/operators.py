"""Operators of the platform and their roles."""

from collections import Counter

from sqlalchemy import Select, func, select

from panel.core.db import session
from panel.core.errors import Conflict
from panel.core.messages import message
from panel.models import Account, Member
from panel.services import operator_roles

LAST_OPERATOR_MESSAGE = message("This is the last operator with full access. Assign this role to another user first.")


def listing() -> Select[Account]:
    return select(Account).where(Account.operator_role.is_not(None)).order_by(Account.email)


def count_by_role() -> Counter[str | None]:
    """Return the number of operators with each role, and of accounts without one."""
    query = select(Account.operator_role, func.count()).group_by(Account.operator_role)
    return Counter(dict(session.execute(query).all()))


def promote(account: Account, role: str | None) -> Account:
    """Give the person a role; None removes it. It applies from the next request on."""
    if role != "full":
        ensure_one_left(account)
    if role and session.scalar(select(Member.id).where(Member.account_id == account.id)):
        raise Conflict(message("Members of a customer's team do not run the platform."), reason="is_member")
    if role is not None:
        operator_roles.ensure_assignable(role)
    account.operator_role = role
    session.flush()
    return account


def ensure_one_left(account: Account) -> None:
    """Raise Conflict if this person is the only operator with the full role.

    The rows are locked, so concurrent requests wait.
    """
    query = select(Account.id).where(Account.operator_role == "full", Account.suspended_at.is_(None))
    full_ids = session.scalars(query.order_by(Account.id).with_for_update()).all()
    if full_ids == [account.id]:
        raise Conflict(LAST_OPERATOR_MESSAGE, reason="last_operator")
