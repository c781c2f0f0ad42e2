"""Backups of the installation itself, which workers store in a backup destination."""

from datetime import datetime

from sqlalchemy import BigInteger, ForeignKey, Index, String
from sqlalchemy.orm import Mapped, mapped_column, relationship

from panel.core import clock
from panel.core.db import EncryptedText, MessageText, Model, TimestampMixin
from panel.models.backup_destinations import BackupDestination

SETTINGS_ROW_ID = "installation"


class InstallationBackup(TimestampMixin, Model):
    """One run: an encrypted archive of the installation, or the attempt to store one."""

    __tablename__ = "installation_backups"
    live_permissions = (None, "admin:system:read")
    __table_args__ = (
        Index("ix_installation_backups_destination_id_status_id", "destination_id", "status", "id"),
        Index("ix_installation_backups_status_id", "status", "id"),
    )

    destination_id: Mapped[str] = mapped_column(ForeignKey("backup_destinations.id"))
    is_scheduled: Mapped[bool]
    """Whether the schedule requested it, and not a person."""
    status: Mapped[str] = mapped_column(String(16), default="queued")
    """`queued`, `running`, `completed`, `failed`, or `deleting`: its archive is deleted, or could not be so far."""
    archive: Mapped[str | None] = mapped_column(String(100))
    """Name of the complete archive in the destination."""
    size: Mapped[int | None] = mapped_column(BigInteger)
    """Bytes of the archive."""
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]
    error: Mapped[str | None] = mapped_column(MessageText)
    """Why it failed, or why its archive could not be deleted."""

    destination: Mapped[BackupDestination] = relationship()

    @property
    def name(self) -> str:
        """Its name in lists of tasks."""
        return f"{self.created_at:%Y-%m-%d %H:%M} UTC"

    @property
    def destination_name(self) -> str:
        return self.destination.name

    @property
    def trigger(self) -> str:
        return "schedule" if self.is_scheduled else "manual"

    @property
    def is_open(self) -> bool:
        return self.status in ("queued", "running")

    @property
    def is_changing(self) -> bool:
        return self.is_open or (self.status == "deleting" and self.error is None)


class InstallationBackupSettings(Model):
    """The schedule, in one row. Without it there is none."""

    __tablename__ = "installation_backup_settings"

    id: Mapped[str] = mapped_column(String(36), primary_key=True, default=SETTINGS_ROW_ID)
    enabled: Mapped[bool]
    destination_id: Mapped[str | None] = mapped_column(ForeignKey("backup_destinations.id"), index=True)
    frequency: Mapped[str] = mapped_column(String(8))
    """`daily` or `weekly`."""
    time: Mapped[str] = mapped_column(String(5))
    """Time of day such as 02:30, in UTC."""
    day: Mapped[int | None]
    """Day of weekly backups: 0 is Sunday."""
    retention_count: Mapped[int]
    """Complete backups that are kept in a destination."""
    passphrase: Mapped[str | None] = mapped_column(EncryptedText)
    """Encrypts archives. It is not in them, so a restore needs it from elsewhere."""
    passphrase_changed_at: Mapped[datetime | None]
    next_run_at: Mapped[datetime | None]
    """None while the schedule is off."""
    updated_at: Mapped[datetime] = mapped_column(default=clock.now, onupdate=clock.now)

    destination: Mapped[BackupDestination | None] = relationship()

    @property
    def name(self) -> str:
        return self.id

    @property
    def has_passphrase(self) -> bool:
        return self.passphrase is not None
