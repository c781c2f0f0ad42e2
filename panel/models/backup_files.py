"""Reading the files of backups."""

from datetime import datetime
from types import SimpleNamespace
from typing import Any

from sqlalchemy import JSON, BigInteger, ForeignKey, String, Text
from sqlalchemy.orm import Mapped, mapped_column, relationship

from panel.core.db import MessageText, Model, TimestampMixin
from panel.models.hypervisors import Hypervisor, Storage


class BackupFileSession(TimestampMixin, Model):
    """A machine on a node that reads the files of one backup, for a limited time. It has the row's id."""

    __tablename__ = "backup_file_sessions"

    account_id: Mapped[str] = mapped_column(ForeignKey("accounts.id", ondelete="cascade"), index=True)
    backup_id: Mapped[str] = mapped_column(String(36), unique=True)
    """Plain text, because the backup may be deleted meanwhile."""
    instance_id: Mapped[str] = mapped_column(String(36))
    hypervisor_id: Mapped[str] = mapped_column(ForeignKey("hypervisors.id", ondelete="cascade"), index=True)
    storage_id: Mapped[str] = mapped_column(ForeignKey("storages.id", ondelete="cascade"), index=True)
    """Where the copies of the disks are."""
    name: Mapped[str]
    """The backup's name, for tasks."""
    state: Mapped[str] = mapped_column(String(16), default="preparing")
    """`preparing`, `ready`, `failed` or `closing`."""
    error: Mapped[str | None] = mapped_column(MessageText)
    volumes: Mapped[list[dict[str, Any]]] = mapped_column(JSON, default=list)
    """The file systems: name, kind, label, size, and why one cannot be read."""
    expires_at: Mapped[datetime] = mapped_column(index=True)
    """Each use postpones it, until `ends_at`."""
    ends_at: Mapped[datetime]

    hypervisor: Mapped[Hypervisor] = relationship()
    storage: Mapped[Storage] = relationship()

    @property
    def volume_facts(self) -> list[SimpleNamespace]:
        return [SimpleNamespace(**volume) for volume in self.volumes]

    @property
    def node_name(self) -> str:
        return f"files-{self.id[-12:]}"


class BackupFileRequest(TimestampMixin, Model):
    """A folder to list, or a file or folder to download. The content never changes, so a result stays true."""

    __tablename__ = "backup_file_requests"

    session_id: Mapped[str] = mapped_column(ForeignKey("backup_file_sessions.id", ondelete="cascade"), index=True)
    digest: Mapped[str] = mapped_column(String(64), unique=True)
    """Of the session, the kind, the path and the place in the list."""
    kind: Mapped[str] = mapped_column(String(16))
    """`list` or `download`."""
    path: Mapped[str] = mapped_column(Text)
    after: Mapped[str] = mapped_column(Text, default="")
    """The name after which a list begins."""
    status: Mapped[str] = mapped_column(String(16), default="waiting")
    """`waiting`, `done` or `failed`."""
    requested_at: Mapped[datetime]
    error: Mapped[str | None] = mapped_column(MessageText)
    reason: Mapped[str | None] = mapped_column(String(32))
    result: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    """Of a list: the entries, and whether there are more. Of a download: whether it is an archive."""
    size: Mapped[int | None] = mapped_column(BigInteger)
    """Bytes of a download."""

    session: Mapped[BackupFileSession] = relationship()

    @property
    def name(self) -> str:
        """Return the path, for the audit log."""
        return self.path or "/"

    @property
    def account_id(self) -> str:
        return self.session.account_id

    @property
    def file_name(self) -> str:
        """Return the name of the downloaded file."""
        name = self.path.rpartition("/")[2]
        return f"{name}.tar" if self.result and self.result["is_archive"] else name
