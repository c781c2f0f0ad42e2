"""Announcements and maintenance notices of operators, and who has dismissed them."""

from datetime import datetime

from sqlalchemy import ForeignKey, Index, String, Text
from sqlalchemy.orm import Mapped, mapped_column, relationship

from panel.core import clock
from panel.core.db import Model, TimestampMixin
from panel.models.accounts import Account
from panel.models.hypervisors import HypervisorGroup


class Announcement(TimestampMixin, Model):
    """A text that everybody, or the customers of a location, or one customer sees for a while."""

    __tablename__ = "announcements"
    __table_args__ = (Index("ix_announcements_ends_at", "ends_at", "id"),)

    kind: Mapped[str] = mapped_column(String(16))
    """`announcement` or `maintenance`, which is shown before it begins."""
    name: Mapped[str]
    """The title."""
    text: Mapped[str] = mapped_column(Text)
    starts_at: Mapped[datetime] = mapped_column(default=clock.now)
    ends_at: Mapped[datetime]
    group_id: Mapped[str | None] = mapped_column(ForeignKey("hypervisor_groups.id", ondelete="cascade"), index=True)
    """The location; empty for all."""
    account_id: Mapped[str | None] = mapped_column(ForeignKey("accounts.id", ondelete="cascade"), index=True)
    """The customer; empty for all."""
    sent_up_to: Mapped[str] = mapped_column(String(36), default="")
    """The id of the last account that has the message in its inbox."""
    sent_at: Mapped[datetime | None]
    """When the last inbox had it."""

    group: Mapped[HypervisorGroup | None] = relationship()
    account: Mapped[Account | None] = relationship()

    @property
    def audience(self) -> str:
        return "location" if self.group_id else "customer" if self.account_id else "all"

    @property
    def is_maintenance(self) -> bool:
        return self.kind == "maintenance"

    @property
    def status(self) -> str:
        """`planned`, `shown` or `ended`."""
        now = clock.now()
        if self.ends_at <= now:
            return "ended"
        return "shown" if self.is_maintenance or self.starts_at <= now else "planned"


class AnnouncementDismissal(Model):
    """A person does not want to see the announcement again."""

    __tablename__ = "announcement_dismissals"
    is_audit_part = True

    announcement_id: Mapped[str] = mapped_column(ForeignKey("announcements.id", ondelete="cascade"), primary_key=True)
    account_id: Mapped[str] = mapped_column(ForeignKey("accounts.id", ondelete="cascade"), primary_key=True, index=True)
