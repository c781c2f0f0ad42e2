"""Tests whether backups can be restored."""

from datetime import datetime

from sqlalchemy import ForeignKey, Index, LargeBinary, String
from sqlalchemy.orm import Mapped, mapped_column, relationship

from panel.core.db import MessageText, Model, TimestampMixin
from panel.models.accounts import Account
from panel.models.hypervisors import Hypervisor, Storage


class BackupRestoreTest(TimestampMixin, Model):
    """One start of a machine from copies of a backup's disks. The machine has the row's id."""

    __tablename__ = "backup_restore_tests"
    __table_args__ = (
        Index("ix_backup_restore_tests_instance_id_id", "instance_id", "id"),
        Index("ix_backup_restore_tests_backup_id_id", "backup_id", "id"),
        Index("ix_backup_restore_tests_status_id", "status", "id"),
    )

    account_id: Mapped[str] = mapped_column(ForeignKey("accounts.id", ondelete="cascade"), index=True)
    instance_id: Mapped[str] = mapped_column(String(36))
    backup_id: Mapped[str] = mapped_column(String(36))
    """Plain text, because instance and backup may be deleted."""
    name: Mapped[str]
    """The instance's display name, for lists and tasks."""
    backup_at: Mapped[datetime]
    hypervisor_id: Mapped[str] = mapped_column(ForeignKey("hypervisors.id", ondelete="cascade"), index=True)
    storage_id: Mapped[str] = mapped_column(ForeignKey("storages.id", ondelete="cascade"), index=True)
    status: Mapped[str] = mapped_column(String(16), default="running")
    """`running`, `passed`, `failed`, or `aborted`: the platform could not carry it out."""
    evidence: Mapped[str | None] = mapped_column(String(16))
    """Why it passed: `agent` (the guest agent answered) or `screen` (the screen changed)."""
    error: Mapped[str | None] = mapped_column(MessageText)
    boot_seconds: Mapped[int | None]
    """From the start until the evidence."""
    finished_at: Mapped[datetime | None]
    screenshot: Mapped[bytes | None] = mapped_column(LargeBinary, deferred=True)
    """The screen at the end, as a PNG image."""
    has_screenshot: Mapped[bool] = mapped_column(default=False)

    account: Mapped[Account] = relationship()
    hypervisor: Mapped[Hypervisor] = relationship()
    storage: Mapped[Storage] = relationship()

    @property
    def node_name(self) -> str:
        return f"test-{self.id[-12:]}"
