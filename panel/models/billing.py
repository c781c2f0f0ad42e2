"""What resources cost: for how long they were there, hour by hour and month by month, and each account's ledger.

Accounts and resources are named by plain text ids: what was written for them outlives them.
"""

from datetime import datetime
from decimal import Decimal

from sqlalchemy import Index, String, text
from sqlalchemy.orm import Mapped, mapped_column

from panel.core import clock
from panel.core.db import Model, Money, TimestampMixin, append_only, new_id


class MeteringRecord(TimestampMixin, Model):
    """A resource that somebody has, for as long as its price stays the same. A change of price begins another one."""

    __tablename__ = "rentals"
    __table_args__ = (
        Index("ix_rentals_resource_id_id", "resource_id", "id"),
        Index(
            "ix_rentals_unsettled",
            "counted_until",
            sqlite_where=text("not settled"),
            postgresql_where=text("not settled"),
        ),
    )

    account_id: Mapped[str] = mapped_column(String(36))
    resource_type: Mapped[str] = mapped_column(String(32))
    resource_id: Mapped[str] = mapped_column(String(36))
    resource_name: Mapped[str]
    plan: Mapped[str]
    """What was rented, in words."""
    price: Mapped[Decimal] = mapped_column(Money)
    """A month."""
    billing_mode: Mapped[str] = mapped_column(String(16))
    """`cloud_service`, or `external` when an outside billing system charges for it."""
    first_hour: Mapped[datetime]
    """The first hour of the resource, of all its rentals: the free hours of a month are counted from it."""
    started_at: Mapped[datetime]
    ended_at: Mapped[datetime | None]
    counted_until: Mapped[datetime]
    """The hours before this one are recorded."""
    settled: Mapped[bool] = mapped_column(default=False)
    """It has ended and every hour of it is recorded."""


class UsageHour(Model):
    """One hour of one resource: at most one such row, however often and late the count runs."""

    __tablename__ = "usage_hours"
    __table_args__ = (Index("ix_usage_hours_hour", "hour"),)

    resource_id: Mapped[str] = mapped_column(String(36), primary_key=True)
    hour: Mapped[datetime] = mapped_column(primary_key=True)
    """When it began."""
    account_id: Mapped[str] = mapped_column(String(36))
    billing_mode: Mapped[str] = mapped_column(String(16))
    """`cloud_service`, or why it costs nothing here: `self_provisioned`, `external`."""
    price: Mapped[Decimal] = mapped_column(Money)
    charge: Mapped[Decimal] = mapped_column(Money)


class UsageMonth(Model):
    """What one resource used in a calendar month (UTC): the sum of its hours, kept when those are no longer. A resource
    whose owner changed in a month has a row for each of them."""

    __tablename__ = "usage_months"
    __table_args__ = (
        Index("ix_usage_months_account_id_month", "account_id", "month", "resource_id"),
        Index("ix_usage_months_month_account_id", "month", "account_id"),
        Index(
            "ix_usage_months_unbooked", "account_id", sqlite_where=text("unbooked"), postgresql_where=text("unbooked")
        ),
    )

    resource_id: Mapped[str] = mapped_column(String(36), primary_key=True)
    month: Mapped[str] = mapped_column(String(7), primary_key=True)
    """`2026-11`."""
    account_id: Mapped[str] = mapped_column(String(36), primary_key=True)
    resource_type: Mapped[str] = mapped_column(String(32))
    resource_name: Mapped[str]
    plan: Mapped[str]
    price: Mapped[Decimal] = mapped_column(Money)
    billing_mode: Mapped[str] = mapped_column(String(16))
    """These three as they were in the last hour."""
    last_hour: Mapped[datetime]
    hours: Mapped[int] = mapped_column(default=0)
    charge: Mapped[Decimal] = mapped_column(Money, default=Decimal(0))
    unbooked: Mapped[bool] = mapped_column(default=False)
    """The charge has changed since the ledger was last written."""


class CreditLedgerEntry(Model):
    """One line of an account's ledger. The account's balance is their sum."""

    __tablename__ = "credits"
    __table_args__ = (
        Index("ix_credits_account_id_id", "account_id", "id"),
        Index("ix_credits_account_id_month", "account_id", "month"),
        Index("ix_credits_corrects_id", "corrects_id"),
        Index("uq_credits_account_id_key", "account_id", "idempotency_key", unique=True),
    )

    id: Mapped[str] = mapped_column(String(36), primary_key=True, default=new_id)
    account_id: Mapped[str] = mapped_column(String(36))
    email: Mapped[str]
    """Whose it was, as the address was then."""
    kind: Mapped[str] = mapped_column(String(16))
    """`credit`, `usage`, `adjustment` or `refund`."""
    amount: Mapped[Decimal] = mapped_column(Money)
    """What it adds to the balance: less than nothing for usage."""
    balance_after: Mapped[Decimal] = mapped_column(Money)
    description: Mapped[str] = mapped_column(default="")
    reference: Mapped[str | None]
    """What an outside system calls it: the number of an invoice or a payment."""
    actor: Mapped[str]
    month: Mapped[str | None] = mapped_column(String(7))
    """The month whose usage it charges."""
    corrects_id: Mapped[str | None] = mapped_column(String(36))
    """The entry whose amount it changes or takes back."""
    idempotency_key: Mapped[str | None]
    request_hash: Mapped[str | None] = mapped_column(String(64))
    """Of what was asked with the key: the same key with something else is a mistake."""
    created_at: Mapped[datetime] = mapped_column(default=clock.now)


append_only(CreditLedgerEntry.__table__)
