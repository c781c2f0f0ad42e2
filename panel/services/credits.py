"""The ledger of an account: credit that it was given, and what its usage took. Entries are only added.

The balance is kept on the account, changed by the same transaction that writes the entry, and may be less than nothing:
usage is charged after it happened.
"""

from decimal import Decimal
from hashlib import sha256

from sqlalchemy import func, select, update

from panel.core import clock
from panel.core.db import session
from panel.core.errors import Conflict, Invalid, NotFound
from panel.models import Account, CreditEntry

GIVEN = ("credit", "adjustment", "refund")
"""Kinds that people and billing systems write; `usage` is the platform's own."""
GONE = "The account is gone: its ledger is closed."


def listing(account=None, *, kinds=None):
    """Newest first. With an account, only its own."""
    query = select(CreditEntry).order_by(CreditEntry.id.desc())
    if account:
        query = query.where(account.owns(CreditEntry))
    return query.where(CreditEntry.kind.in_(kinds)) if kinds else query


EXPORTED = ("id", "created_at", "email", "kind", "amount", "balance_after", "description", "reference", "month")


def exported(account):
    """The ledger as lines of a table."""
    for entry in session.scalars(listing(account)):
        yield [getattr(entry, name) for name in EXPORTED]


def get(entry_id, account_id=None):
    entry = session.get(CreditEntry, entry_id)
    if entry is None or account_id not in (None, entry.account_id):
        raise NotFound("No such credit.")
    return entry


def lock(account_id):
    """The account, whose ledger nobody else writes until the transaction ends; or None."""
    return session.get(Account, account_id, with_for_update=True, populate_existing=True)


def give(account, *, amount, actor, kind="credit", description="", reference=None, key=None):
    """Adds credit, pays something back, or adjusts the balance either way. The same `key` again, with the same request,
    returns the entry that it made."""
    if not amount or (amount < 0 and kind != "adjustment"):
        raise Invalid("The amount cannot be booked.", amount=f"Must be more than 0 for a {kind}, and not 0.")
    account = lock(account.id)
    if account is None:
        raise Conflict(GONE)
    asked = sha256(repr((kind, amount.normalize(), description, reference)).encode()).hexdigest()
    made = key and session.scalar(
        select(CreditEntry).where(CreditEntry.account_id == account.id, CreditEntry.idempotency_key == key)
    )
    if made and made.request_hash != asked:
        raise Invalid("This Idempotency-Key was used for another request. Use a new key for each request.")
    facts = {"description": description, "reference": reference, "idempotency_key": key, "request_hash": asked}
    return made or write(account, kind, amount, actor=actor, **facts)


def write(account, kind, amount, *, actor, **facts):
    """One entry. The database adds to the balance, so entries that are written at once add up."""
    added = update(Account).where(Account.id == account.id).values(balance=Account.balance + amount)
    balance = session.scalar(added.returning(Account.balance))
    entry = CreditEntry(
        account_id=account.id,
        email=account.email,
        kind=kind,
        amount=amount,
        balance_after=balance,
        actor=actor,
        created_at=clock.now(),
        **facts,
    )
    session.add(entry)
    session.flush()
    return entry


def correct(entry, *, amount, actor, description=""):
    """Makes an entry count as `amount`, 0 to take it back. The entry stays as it was and another one tells the
    difference; returns that one, or the entry when there is none."""
    if entry.kind not in GIVEN or entry.corrects_id:
        raise Conflict("Only credit that somebody gave can be changed: write an adjustment instead.")
    account = lock(entry.account_id)
    if account is None:
        raise Conflict(GONE)
    corrections = select(func.coalesce(func.sum(CreditEntry.amount), 0)).where(CreditEntry.corrects_id == entry.id)
    difference = amount - entry.amount - session.scalar(corrections)
    if not difference:
        return entry
    facts = {"description": description, "corrects_id": entry.id, "reference": entry.reference}
    return write(account, "adjustment", difference, actor=actor, **facts)


def charged(account_id, month):
    """What the ledger has of the usage of a month."""
    entries = CreditEntry.account_id == account_id, CreditEntry.month == month
    return -session.scalar(select(func.coalesce(func.sum(CreditEntry.amount), Decimal(0))).where(*entries))


def balance(account):
    """What an account, or the one that somebody acts for, has left."""
    return session.scalar(select(Account.balance).where(Account.id == account.id))
