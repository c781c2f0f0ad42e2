"""Customers as a billing system sees them, by its own id (`external_id`). Operators are never among them."""

from typing import Any

from sqlalchemy import Select, select
from sqlalchemy.exc import IntegrityError

from panel.core.db import session
from panel.core.errors import Invalid, NotFound
from panel.core.messages import message
from panel.models import Account
from panel.services import accounts, passwords


def listing(*, external_id: str | None = None, email: str | None = None) -> Select[Account]:
    """Select customers, newest first."""
    query = select(Account).where(Account.operator_role.is_(None)).order_by(Account.id.desc())
    if external_id is not None:
        query = query.where(Account.external_id == external_id)
    return query.where(Account.email == email.strip().lower()) if email is not None else query


def get(account_id: str, error_field: str | None = None) -> Account:
    account = session.scalar(listing().where(Account.id == account_id))
    if account is None and error_field:
        raise Invalid(message("No such user."), **{error_field: message("No such user.")})
    if account is None:
        raise NotFound(message("No such user."))
    return account


def provision(*, external_id: str, email: str, password: str | None = None, **facts: Any) -> Account:
    """Return the customer with this external id, created if there is none yet; a repeated call returns the same one. A
    new customer without a password is mailed a link to choose one."""
    try:
        with session.begin_nested():
            account = find_by_external_id(external_id)
            if account is None:
                account = accounts.create(email=email, password=password, external_id=external_id, **facts)
                if password is None:
                    passwords.request_reset(account.email)
            return account
    except (IntegrityError, Invalid) as error:  # perhaps because another request was faster
        account = find_by_external_id(external_id)
        if account is not None:
            return account
        if isinstance(error, Invalid):
            raise
        raise Invalid(
            message("An account with this email address already exists."), email=message("This address is taken.")
        ) from None


def find_by_external_id(external_id: str) -> Account | None:
    """Return the customer with this external id, or None. Raise when an operator has it, without showing who."""
    account = session.scalar(select(Account).where(Account.external_id == external_id))
    if account and account.is_admin:
        raise Invalid(message("This external id is taken."), external_id=message("This id is taken."))
    return account


def update(account: Account, **changes: Any) -> Account:
    if "external_id" in changes and find_by_external_id(changes["external_id"]) not in (None, account):
        raise Invalid(message("This external id is taken."), external_id=message("This id is taken."))
    return accounts.update(account, **changes)
