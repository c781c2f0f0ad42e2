"""Owners of rows, for operators. Rows without an owner are the platform's."""

from collections.abc import Iterable
from typing import Any

from sqlalchemy import select

from panel.core.db import session
from panel.core.errors import Invalid
from panel.core.messages import message
from panel.models import Account
from panel.services import accounts


def map_emails(rows: Iterable[Any]) -> dict[str, str]:
    """Return the email address of each row's owner, by account id."""
    ids = {row.account_id for row in rows if row.account_id}
    return dict(session.execute(select(Account.id, Account.email).where(Account.id.in_(ids))).all())


def map_accounts(rows: Iterable[Any]) -> dict[str, Account]:
    """Return each row's owner, by account id."""
    ids = {row.account_id for row in rows if row.account_id}
    return {account.id: account for account in session.scalars(select(Account).where(Account.id.in_(ids)))}


def get_account_by_email(email: str | None) -> Account | None:
    """Return the account with the address that an operator entered; None without an address, for the platform."""
    if not email:
        return None
    account = accounts.find_by_email(email)
    if account is None:
        raise Invalid(message("Customer not found."), owner=message("No account has this email address."))
    return account


def find_account(row: Any) -> Account | None:
    """Return the owner's account, or None."""
    return session.get(Account, row.account_id) if row.account_id else None
