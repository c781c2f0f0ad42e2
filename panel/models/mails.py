"""Mails that wait to be sent."""

from datetime import datetime
from typing import Any

from sqlalchemy import Index, String
from sqlalchemy.orm import Mapped, mapped_column

from panel.core import clock, messages
from panel.core.db import EncryptedText, Model, TimestampMixin


class Mail(TimestampMixin, Model):
    """One mail to one address. The row is deleted when the mail is sent, so that its content is not stored longer."""

    __tablename__ = "mails"
    is_audit_part = True
    __table_args__ = (Index("ix_mails_due_at_id", "due_at", "id"),)

    recipient: Mapped[str]
    template: Mapped[str] = mapped_column(String(64))
    encrypted_context: Mapped[str] = mapped_column(EncryptedText)
    """The template's values as JSON. Encrypted, because there may be a link in them that gives access to an account."""
    attempts: Mapped[int] = mapped_column(default=0)
    due_at: Mapped[datetime] = mapped_column(default=clock.now)
    error: Mapped[str | None]
    """The mail server's answer to the last attempt."""

    @property
    def facts(self) -> dict[str, Any]:
        return messages.load_facts(self.encrypted_context)
