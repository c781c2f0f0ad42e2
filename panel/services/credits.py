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
from panel.models import Account, CreditLedgerEntry

GRANTED_KINDS = ("credit", "adjustment", "refund")
"""Kinds that people and billing systems write; `usage` is the platform's own."""
ACCOUNT_GONE_MESSAGE = "The account is gone: its ledger is closed."


def listing(account=None, *, kinds=None):
    """Newest first. With an account, only its own."""
    query = select(CreditLedgerEntry).order_by(CreditLedgerEntry.id.desc())
    if account:
        query = query.where(account.visible_rows(CreditLedgerEntry))
    return query.where(CreditLedgerEntry.kind.in_(kinds)) if kinds else query


EXPORT_COLUMNS = ("id", "created_at", "email", "kind", "amount", "balance_after", "description", "reference", "month")


def iter_export(account):
    """The ledger as lines of a table."""
    for entry in session.scalars(listing(account)):
        yield [getattr(entry, name) for name in EXPORT_COLUMNS]


def get(entry_id, account_id=None):
    entry = session.get(CreditLedgerEntry, entry_id)
    if entry is None or account_id not in (None, entry.account_id):
        raise NotFound("No such credit.")
    return entry


def lock_account(account_id):
    """The account, whose ledger nobody else writes until the transaction ends; or None."""
    return session.get(Account, account_id, with_for_update=True, populate_existing=True)


def grant(account, *, amount, actor, kind="credit", description="", reference=None, idempotency_key=None):
    """Adds credit, pays something back, or adjusts the balance either way. The same `key` again, with the same request,
    returns the entry that it made."""
    if not amount or (amount < 0 and kind != "adjustment"):
        raise Invalid("The amount cannot be booked.", amount=f"Must be more than 0 for a {kind}, and not 0.")
    account = lock_account(account.id)
    if account is None:
        raise Conflict(ACCOUNT_GONE_MESSAGE)
    asked = sha256(repr((kind, amount.normalize(), description, reference)).encode()).hexdigest()
    made = idempotency_key and session.scalar(
        select(CreditLedgerEntry).where(
            CreditLedgerEntry.account_id == account.id, CreditLedgerEntry.idempotency_key == idempotency_key
        )
    )
    if made and made.request_hash != asked:
        raise Invalid("This Idempotency-Key was used for another request. Use a new key for each request.")
    facts = {
        "description": description,
        "reference": reference,
        "idempotency_key": idempotency_key,
        "request_hash": asked,
    }
    return made or post_entry(account, kind, amount, actor=actor, **facts)


def post_entry(account, kind, amount, *, actor, **facts):
    """One entry. The database adds to the balance, so entries that are written at once add up."""
    added = update(Account).where(Account.id == account.id).values(balance=Account.balance + amount)
    balance = session.scalar(added.returning(Account.balance))
    entry = CreditLedgerEntry(
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
    if entry.kind not in GRANTED_KINDS or entry.corrects_id:
        raise Conflict("Only credit that somebody gave can be changed: write an adjustment instead.")
    account = lock_account(entry.account_id)
    if account is None:
        raise Conflict(ACCOUNT_GONE_MESSAGE)
    corrections = select(func.coalesce(func.sum(CreditLedgerEntry.amount), 0)).where(
        CreditLedgerEntry.corrects_id == entry.id
    )
    difference = amount - entry.amount - session.scalar(corrections)
    if not difference:
        return entry
    facts = {"description": description, "corrects_id": entry.id, "reference": entry.reference}
    return post_entry(account, "adjustment", difference, actor=actor, **facts)


def charged_total(account_id, month):
    """What the ledger has of the usage of a month."""
    entries = CreditLedgerEntry.account_id == account_id, CreditLedgerEntry.month == month
    return -session.scalar(select(func.coalesce(func.sum(CreditLedgerEntry.amount), Decimal(0))).where(*entries))


def get_balance(account):
    """What an account, or the one that somebody acts for, has left."""
    return session.scalar(select(Account.balance).where(Account.id == account.id))
