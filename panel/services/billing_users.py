"""Customers as a billing system knows them: by an id of its own. Operators are not among them, whoever asks."""

from sqlalchemy import select
from sqlalchemy.exc import IntegrityError

from panel.core.db import session
from panel.core.errors import Invalid, NotFound
from panel.models import Account
from panel.services import accounts, passwords


def listing(*, external_id=None, email=None):
    """Newest first."""
    query = select(Account).where(Account.operator_role.is_(None)).order_by(Account.id.desc())
    if external_id is not None:
        query = query.where(Account.external_id == external_id)
    return query.where(Account.email == email.strip().lower()) if email is not None else query


def get(account_id, field=None):
    found = session.scalar(listing().where(Account.id == account_id))
    if found is None and field:
        raise Invalid("No such user.", **{field: "No such user."})
    if found is None:
        raise NotFound("No such user.")
    return found


def provision(*, external_id, email, password=None, **facts):
    """The customer with this external id, made if there is none yet: asked twice, there is one. A new one without a
    password is mailed a link to choose one."""
    try:
        with session.begin_nested():
            made = find_by_external_id(external_id)
            if made is None:
                made = accounts.create(email=email, password=password, external_id=external_id, **facts)
                if password is None:
                    passwords.request_reset(made.email)
            return made
    except IntegrityError:  # another request was faster
        made = find_by_external_id(external_id)
        if made is None:
            raise Invalid("There is an account with this email address.", email="This address is taken.") from None
        return made


def find_by_external_id(external_id):
    """Of operators too: what belongs to one of them is taken, and shown to nobody."""
    made = session.scalar(select(Account).where(Account.external_id == external_id))
    if made and made.is_admin:
        raise Invalid("This external id is taken.", external_id="This id is taken.")
    return made


def update(account, **changes):
    if "external_id" in changes and find_by_external_id(changes["external_id"]) not in (None, account):
        raise Invalid("This external id is taken.", external_id="This id is taken.")
    return accounts.update(account, **changes)
