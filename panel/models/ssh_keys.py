"""Customers' public SSH keys."""

from sqlalchemy import ForeignKey, Index, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from panel.core.db import Model, TimestampMixin


class SshKey(TimestampMixin, Model):
    __tablename__ = "ssh_keys"
    __table_args__ = (Index("ix_ssh_keys_account_id_name", "account_id", "name", unique=True),)

    account_id: Mapped[str] = mapped_column(ForeignKey("accounts.id", ondelete="cascade"))
    name: Mapped[str] = mapped_column(String(32))
    public_key: Mapped[str] = mapped_column(Text)
    fingerprint: Mapped[str] = mapped_column(String(64))
    comments: Mapped[str | None]

    @property
    def authorized_keys_line(self) -> str:
        return self.public_key.strip()
