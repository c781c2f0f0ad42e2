"""Metering and billing: usage by hour and month, and each account's ledger.

Accounts and resources are referred to by plain text ids, because the rows outlive them.
"""

from datetime import datetime
from decimal import Decimal

from sqlalchemy import Index, String, text
from sqlalchemy.orm import Mapped, mapped_column

from panel.core import clock
from panel.core.db import MessageText, Model, Money, TimestampMixin, append_only, generate_id


class MeteringRecord(TimestampMixin, Model):
    """A resource and its price, for as long as the price stays the same. A change of price starts another record."""

    __tablename__ = "metering_records"
    is_audit_part = True
    __table_args__ = (
        Index("ix_metering_records_resource_id_id", "resource_id", "id"),
        Index(
            "ix_metering_records_open",
            "metered_until",
            sqlite_where=text("not closed"),
            postgresql_where=text("not closed"),
        ),
        Index(
            "ix_metering_records_account_id_open",
            "account_id",
            sqlite_where=text("not closed"),
            postgresql_where=text("not closed"),
        ),
    )

    account_id: Mapped[str] = mapped_column(String(36))
    resource_type: Mapped[str] = mapped_column(String(32))
    resource_id: Mapped[str] = mapped_column(String(36))
    resource_name: Mapped[str]
    plan: Mapped[str]
    """Name of the plan or product."""
    price: Mapped[Decimal] = mapped_column(Money)
    """A month."""
    billing_mode: Mapped[str] = mapped_column(String(16))
    """`cloud_service`, or `external` when an external billing system charges for it."""
    first_hour: Mapped[datetime]
    """The first hour of the resource in all its records: the free hours of a month are counted from it."""
    started_at: Mapped[datetime]
    ended_at: Mapped[datetime | None]
    metered_until: Mapped[datetime]
    """The hours before this one are recorded."""
    closed: Mapped[bool] = mapped_column(default=False)
    """The record has ended and all its hours are recorded."""


class UsageHour(Model):
    """One hour of one resource. There is at most one such row, however often and late metering runs."""

    __tablename__ = "usage_hours"
    is_audit_part = True
    __table_args__ = (Index("ix_usage_hours_hour", "hour"),)

    resource_id: Mapped[str] = mapped_column(String(36), primary_key=True)
    hour: Mapped[datetime] = mapped_column(primary_key=True)
    """When it began."""
    account_id: Mapped[str] = mapped_column(String(36))
    billing_mode: Mapped[str] = mapped_column(String(16))
    """`cloud_service`, or why it is not charged: `self_provisioned`, `external`."""
    price: Mapped[Decimal] = mapped_column(Money)
    charge: Mapped[Decimal] = mapped_column(Money)


class UsageMonth(Model):
    """Usage of one resource in a calendar month (UTC): the sum of its hours, which are deleted earlier.

    If the owner changed within the month, each owner has a row.
    """

    __tablename__ = "usage_months"
    is_audit_part = True
    __table_args__ = (
        Index("ix_usage_months_account_id_month", "account_id", "month", "resource_id"),
        Index("ix_usage_months_month_account_id", "month", "account_id"),
        Index(
            "ix_usage_months_needs_posting",
            "account_id",
            sqlite_where=text("needs_posting"),
            postgresql_where=text("needs_posting"),
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
    """Plan, price and billing mode are those of the last hour."""
    last_hour: Mapped[datetime]
    hours: Mapped[int] = mapped_column(default=0)
    charge: Mapped[Decimal] = mapped_column(Money, default=Decimal(0))
    needs_posting: Mapped[bool] = mapped_column(default=False)
    """The charge has changed since the ledger was last written."""


class CreditLedgerEntry(Model):
    """One line of an account's ledger. The account's balance is the sum of all."""

    __tablename__ = "credits"
    __table_args__ = (
        Index("ix_credits_account_id_id", "account_id", "id"),
        Index("ix_credits_account_id_month", "account_id", "month"),
        Index("ix_credits_corrects_id", "corrects_id"),
        Index("uq_credits_account_id_key", "account_id", "idempotency_key", unique=True),
    )

    id: Mapped[str] = mapped_column(String(36), primary_key=True, default=generate_id)
    account_id: Mapped[str] = mapped_column(String(36))
    email: Mapped[str]
    """The account's email address at that time."""
    kind: Mapped[str] = mapped_column(String(16))
    """`credit`, `usage`, `adjustment` or `refund`."""
    amount: Mapped[Decimal] = mapped_column(Money)
    """What it adds to the balance; negative for usage."""
    balance_after: Mapped[Decimal] = mapped_column(Money)
    description: Mapped[str] = mapped_column(MessageText, default="")
    reference: Mapped[str | None]
    """An external system's reference: the number of an invoice or a payment."""
    actor: Mapped[str]
    month: Mapped[str | None] = mapped_column(String(7))
    """The month whose usage it charges."""
    corrects_id: Mapped[str | None] = mapped_column(String(36))
    """The entry that it corrects or reverts."""
    idempotency_key: Mapped[str | None]
    request_hash: Mapped[str | None] = mapped_column(String(64))
    """Hash of the request with the idempotency key: another request with the same key is refused."""
    created_at: Mapped[datetime] = mapped_column(default=clock.now)


append_only(CreditLedgerEntry.__table__)
