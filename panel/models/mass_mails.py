"""Mails of operators to many customers, and which of them were handed to the mail queue."""

from datetime import datetime

from sqlalchemy import ForeignKey, Index, String, Text, text
from sqlalchemy.orm import Mapped, mapped_column, relationship

from panel.core.db import Model, TimestampMixin
from panel.models.hypervisors import HypervisorGroup

UNQUEUED_SQL = "queued_at is null"
"""The condition of the partial index for recipients whose mail is not in the queue yet."""


class MassMail(TimestampMixin, Model):
    """One mail to all customers or to those of a location."""

    __tablename__ = "mass_mails"
    __table_args__ = (Index("ix_mass_mails_status", "status", "id"),)

    name: Mapped[str]
    """The subject."""
    text: Mapped[str] = mapped_column(Text)
    group_id: Mapped[str | None] = mapped_column(ForeignKey("hypervisor_groups.id", ondelete="set null"), index=True)
    """Only customers with instances at this location."""
    status: Mapped[str] = mapped_column(String(16), default="draft")
    """`draft`, `sending`, `paused` or `sent`."""
    mails_per_minute: Mapped[int]
    total: Mapped[int] = mapped_column(default=0)
    """Recipients; 0 until it is started."""
    queued: Mapped[int] = mapped_column(default=0)
    """Recipients whose mail was handed to the mail queue."""
    last_batch_at: Mapped[datetime | None]
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]

    group: Mapped[HypervisorGroup | None] = relationship()


class MassMailRecipient(Model):
    """One recipient. The row is marked in the transaction that records the mail, so nobody gets two."""

    __tablename__ = "mass_mail_recipients"
    is_audit_part = True
    __table_args__ = (
        Index(
            "ix_mass_mail_recipients_unqueued",
            "mass_mail_id",
            "account_id",
            sqlite_where=text(UNQUEUED_SQL),
            postgresql_where=text(UNQUEUED_SQL),
        ),
    )

    mass_mail_id: Mapped[str] = mapped_column(ForeignKey("mass_mails.id", ondelete="cascade"), primary_key=True)
    account_id: Mapped[str] = mapped_column(ForeignKey("accounts.id", ondelete="cascade"), primary_key=True, index=True)
    queued_at: Mapped[datetime | None]
