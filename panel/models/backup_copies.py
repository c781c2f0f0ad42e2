"""Copies of backups in a second destination. They outlive the backups."""

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, BigInteger, ForeignKey, Index, String
from sqlalchemy.orm import Mapped, foreign, mapped_column, relationship

from panel.core import clock
from panel.core.db import MessageText, Model, TimestampMixin
from panel.models.accounts import Account
from panel.models.backup_destinations import BackupDestination, BackupRepository
from panel.models.instance_backups import InstanceBackup


class BackupCopy(TimestampMixin, Model):
    """A copy of one backup. Its repository has a point with the backup's id."""

    __tablename__ = "backup_copies"
    __table_args__ = (
        Index("uq_backup_copies_backup_id_destination_id", "backup_id", "destination_id", unique=True),
        Index("ix_backup_copies_status_id", "status", "id"),
        Index("ix_backup_copies_destination_id_id", "destination_id", "id"),
        Index("ix_backup_copies_account_id_id", "account_id", "id"),
    )

    account_id: Mapped[str] = mapped_column(ForeignKey("accounts.id"))
    backup_id: Mapped[str] = mapped_column(String(36))
    """Plain text, because the backup may be deleted."""
    repository_id: Mapped[str] = mapped_column(ForeignKey("backup_repositories.id"), index=True)
    destination_id: Mapped[str] = mapped_column(ForeignKey("backup_destinations.id"))
    backup_name: Mapped[str]
    backup_at: Mapped[datetime]
    backup_values: Mapped[dict[str, Any]] = mapped_column(JSON)
    """What the backup's row needs when it is made again."""
    status: Mapped[str] = mapped_column(String(16), default="requested")
    """`requested`, `copying`, `complete`, `failed` or `deleting`."""
    error: Mapped[str | None] = mapped_column(MessageText)
    retention_days: Mapped[int]
    retained_until: Mapped[datetime | None]
    """Until when a complete copy cannot be deleted, counted from when its copying began."""
    is_locked: Mapped[bool] = mapped_column(default=False)
    """Whether the storage itself keeps it until then."""
    completed_at: Mapped[datetime | None]
    """When it was first complete. Set also when it was found damaged or missing later."""
    size: Mapped[int] = mapped_column(BigInteger, default=0)
    """Bytes that it added to the second destination."""
    missing_at: Mapped[datetime | None]
    """When a comparison with the destination did not find it, if no later one has."""

    account: Mapped[Account] = relationship()
    repository: Mapped[BackupRepository] = relationship()
    destination: Mapped[BackupDestination] = relationship()
    backup: Mapped[InstanceBackup | None] = relationship(
        primaryjoin=lambda: foreign(BackupCopy.backup_id) == InstanceBackup.id, viewonly=True
    )

    @property
    def name(self) -> str:
        """Return the backup's name, for tasks and the audit log."""
        return self.backup_name

    @property
    def is_retained(self) -> bool:
        """Whether it must not be deleted yet."""
        return self.completed_at is not None and self.retained_until is not None and self.retained_until > clock.now()

    @property
    def is_changing(self) -> bool:
        """Whether a task will soon change it."""
        return self.status in ("requested", "copying", "deleting")

    @property
    def destination_name(self) -> str:
        return self.destination.name

    @property
    def owner_email(self) -> str:
        return self.account.email

    @property
    def backup_deleted(self) -> bool:
        return self.backup is None
