"""People who sign in."""

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError
from sqlalchemy import select

from panel import clock
from panel.db import session
from panel.errors import Invalid, NotFound
from panel.models import Account

hasher = PasswordHasher()
NOBODY = hasher.hash("nobody has this password")
"""Checked when there is no such account, so that the answer takes as long."""


def listing(search=None):
    query = select(Account).order_by(Account.id.desc())
    return query.where(Account.email.icontains(search, autoescape=True)) if search else query


def get(account_id):
    account = session.get(Account, account_id)
    if account is None:
        raise NotFound("No such user.")
    return account


def by_email(email):
    return session.scalar(select(Account).where(Account.email == email.strip().lower()))


def create(*, email, password=None, operator_role=None, **names):
    """Makes an account. Without a password it cannot sign in on the pages until one is set."""
    if by_email(email):
        raise Invalid("There is an account with this email address.", email="This address is taken.")
    account = Account(email=email.strip().lower(), operator_role=operator_role, **names)
    if password:
        set_password(account, password)
    session.add(account)
    session.flush()
    return account


def set_password(account, password):
    account.password_hash = hasher.hash(password)


def check_password(email, password):
    """The account, if the password is right; None otherwise, after the same time."""
    account = by_email(email)
    try:
        hasher.verify((account and account.password_hash) or NOBODY, password)
    except (VerificationError, InvalidHashError):
        return None
    if account and account.password_hash:
        account.last_login_at = clock.now()
        return account
    return None
