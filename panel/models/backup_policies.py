"""Backup policies: when the instances attached to them are backed up, and which of these backups are retained."""

from datetime import datetime

from sqlalchemy import ForeignKey, Index, String, select
from sqlalchemy.orm import Mapped, column_property, mapped_column, relationship

from panel.core.db import MessageText, Model, TimestampMixin
from panel.models.accounts import Account
from panel.models.instances import Instance


class BackupPolicy(TimestampMixin, Model):
    """A policy of an account, or of the platform for instances of any account."""

    __tablename__ = "backup_policies"
    __table_args__ = (Index("ix_backup_policies_account_id_name_id", "account_id", "name", "id"),)

    account_id: Mapped[str | None] = mapped_column(ForeignKey("accounts.id", ondelete="cascade"))
    name: Mapped[str]
    full_backup_frequency: Mapped[str] = mapped_column(String(16))
    """`daily` or `weekly`: how often a backup is made."""
    full_backup_time: Mapped[str] = mapped_column(String(5))
    """HH:MM in `timezone`."""
    full_backup_day: Mapped[int | None]
    """The day of a weekly backup: 0 is Sunday."""
    timezone: Mapped[str] = mapped_column(String(64), default="UTC")
    """The account's time zone, for which `next_run_at` was computed."""
    max_incremental_chain: Mapped[int]
    """After so many incremental backups everything is read."""
    backup_device: Mapped[str] = mapped_column(String(16))
    retention_mode: Mapped[str] = mapped_column(String(16))
    retention_count: Mapped[int | None]
    keep_last: Mapped[int]
    keep_within_days: Mapped[int]
    keep_daily: Mapped[int]
    keep_weekly: Mapped[int]
    keep_monthly: Mapped[int]
    keep_yearly: Mapped[int]
    failures: Mapped[int] = mapped_column(default=0)
    """Failed backups since the last success or reset."""
    last_error: Mapped[str | None] = mapped_column(MessageText)
    last_run_at: Mapped[datetime | None]
    next_run_at: Mapped[datetime] = mapped_column(index=True)

    account: Mapped[Account | None] = relationship()
    links: Mapped[list["BackupPolicyInstance"]] = relationship(
        back_populates="policy", cascade="all, delete-orphan", passive_deletes=True
    )

    @property
    def status(self) -> str:
        return "error" if self.failures else "active"

    @property
    def owner_email(self) -> str | None:
        return self.account.email if self.account else None


class BackupPolicyInstance(Model):
    """An instance is attached to a policy, at most to one."""

    __tablename__ = "backup_policy_instances"
    is_audit_part = True

    instance_id: Mapped[str] = mapped_column(ForeignKey("instances.id", ondelete="cascade"), primary_key=True)
    policy_id: Mapped[str] = mapped_column(ForeignKey("backup_policies.id", ondelete="cascade"), index=True)

    policy: Mapped[BackupPolicy] = relationship(back_populates="links")
    instance: Mapped[Instance] = relationship()


Instance.backup_policy_id = column_property(
    select(BackupPolicyInstance.policy_id)
    .where(BackupPolicyInstance.instance_id == Instance.id)
    .correlate(Instance)
    .scalar_subquery(),
    deferred=True,
)
"""The policy that it is attached to, or None."""
