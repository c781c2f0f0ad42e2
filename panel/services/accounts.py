"""People who sign in."""

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError
from sqlalchemy import func, or_, select

from panel import clock
from panel.db import session
from panel.errors import Invalid
from panel.models import Account, Instance
from panel.services.lookup import change, fetch

hasher = PasswordHasher()
NOBODY = hasher.hash("nobody has this password")
"""Checked when there is no such account, so that the answer takes as long."""


def listing(search=None):
    """Everybody, newest first. `search` looks at names, companies and email addresses."""
    query = select(Account).order_by(Account.id.desc())
    if not search:
        return query
    names = (Account.email, Account.first_name, Account.last_name, Account.company_name)
    return query.where(or_(*(column.icontains(search, autoescape=True) for column in names)))


def get(account_id, field=None):
    return fetch(Account, account_id, "No such user.", field)


def weigh(accounts):
    """Notes on each row as `instances` how many the person has."""
    owners = Instance.account_id.in_([account.id for account in accounts])
    counts = select(Instance.account_id, func.count()).where(owners).group_by(Instance.account_id)
    found = dict(session.execute(counts).all())
    for account in accounts:
        account.instances = found.get(account.id, 0)
    return accounts


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


def update(account, **changes):
    return change(account, changes)


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
