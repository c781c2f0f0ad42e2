"""The credit ledger of an account: credit that was granted, and charges for usage. Entries are only added, never
changed.

The balance is stored on the account and updated in the transaction that writes the entry. It may be negative, because
usage is charged afterwards.
"""

from collections.abc import Collection, Iterator
from decimal import Decimal
from hashlib import sha256
from typing import Any

from sqlalchemy import Select, func, select, update

from panel.core import clock
from panel.core.db import session
from panel.core.errors import Conflict, Invalid, NotFound
from panel.core.messages import message
from panel.models import Account, CreditLedgerEntry
from panel.services.access import Access

GRANTED_KINDS = ("credit", "adjustment", "refund")
"""Kinds that people and billing systems write; `usage` entries are written by the platform."""
ACCOUNT_GONE_MESSAGE = message("The account was deleted, so its ledger is closed.")


def listing(
    account: Access | Account | None = None, *, kinds: Collection[str] | None = None
) -> Select[CreditLedgerEntry]:
    """Select entries, newest first; with an account only its own."""
    query = select(CreditLedgerEntry).order_by(CreditLedgerEntry.id.desc())
    if account:
        query = query.where(account.visible_rows(CreditLedgerEntry))
    return query.where(CreditLedgerEntry.kind.in_(kinds)) if kinds else query


EXPORT_COLUMNS = ("id", "created_at", "email", "kind", "amount", "balance_after", "description", "reference", "month")


def iter_export(account: Access | Account) -> Iterator[list[Any]]:
    """Yield the ledger as rows of `EXPORT_COLUMNS`."""
    for entry in session.scalars(listing(account)):
        yield [getattr(entry, name) for name in EXPORT_COLUMNS]


def get(entry_id: str, account_id: str | None = None) -> CreditLedgerEntry:
    entry = session.get(CreditLedgerEntry, entry_id)
    if entry is None or account_id not in (None, entry.account_id):
        raise NotFound(message("No such credit."))
    return entry


def lock_account(account_id: str) -> Account | None:
    """Return the account, whose ledger is locked until the transaction ends; None when it is gone."""
    return session.get(Account, account_id, with_for_update=True, populate_existing=True)


def grant(
    account: Account,
    *,
    amount: Decimal,
    actor: str,
    kind: str = "credit",
    description: str = "",
    reference: str | None = None,
    idempotency_key: str | None = None,
) -> CreditLedgerEntry:
    """Add credit, refund something, or adjust the balance either way. A repeated request with the same
    `idempotency_key` returns the entry of the first one; a different request with that key is refused."""
    if not amount or (amount < 0 and kind != "adjustment"):
        raise Invalid(
            message("The amount cannot be booked."),
            amount=message("Must be more than 0 for a {kind}, and not 0.", kind=kind),
        )
    owner = lock_account(account.id)
    if owner is None:
        raise Conflict(ACCOUNT_GONE_MESSAGE)
    request_hash = sha256(repr((kind, amount.normalize(), description, reference)).encode()).hexdigest()
    existing = idempotency_key and session.scalar(
        select(CreditLedgerEntry).where(
            CreditLedgerEntry.account_id == owner.id, CreditLedgerEntry.idempotency_key == idempotency_key
        )
    )
    if existing and existing.request_hash != request_hash:
        raise Invalid(message("This Idempotency-Key was used for another request. Use a new key for each request."))
    columns = {
        "description": description,
        "reference": reference,
        "idempotency_key": idempotency_key,
        "request_hash": request_hash,
    }
    return existing or post_entry(owner, kind, amount, actor=actor, **columns)


def post_entry(account: Account, kind: str, amount: Decimal, *, actor: str, **facts: Any) -> CreditLedgerEntry:
    """Add one entry and return it. The database adds to the balance, so concurrent entries add up."""
    query = update(Account).where(Account.id == account.id).values(balance=Account.balance + amount)
    balance = session.scalar(query.returning(Account.balance))
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


def correct(entry: CreditLedgerEntry, *, amount: Decimal, actor: str, description: str = "") -> CreditLedgerEntry:
    """Make an entry count as `amount`; 0 cancels it. The entry stays, and an adjustment with the difference is added.
    Return that one, or the entry when there is no difference."""
    if entry.kind not in GRANTED_KINDS or entry.corrects_id:
        raise Conflict(message("Only credit that was added by hand can be changed. Add an adjustment instead."))
    account = lock_account(entry.account_id)
    if account is None:
        raise Conflict(ACCOUNT_GONE_MESSAGE)
    corrections = select(func.coalesce(func.sum(CreditLedgerEntry.amount), 0)).where(
        CreditLedgerEntry.corrects_id == entry.id
    )
    difference = amount - entry.amount - session.scalars(corrections).one()
    if not difference:
        return entry
    columns = {"description": description, "corrects_id": entry.id, "reference": entry.reference}
    return post_entry(account, "adjustment", difference, actor=actor, **columns)


def get_charged_total(account_id: str, month: str) -> Decimal:
    """Return the amount that the ledger has charged for the usage of a month."""
    entries = CreditLedgerEntry.account_id == account_id, CreditLedgerEntry.month == month
    return -session.scalars(select(func.coalesce(func.sum(CreditLedgerEntry.amount), Decimal(0))).where(*entries)).one()


def get_balance(account: Access | Account) -> Decimal:
    """Return the current balance of the account, or of an access's account."""
    return session.scalars(select(Account.balance).where(Account.id == account.id)).one()
