"""Mails that wait to be sent, and the log of those that were."""

from datetime import datetime
from typing import Any

from sqlalchemy import Index, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from panel.core import clock, messages
from panel.core.db import EncryptedText, Model, TimestampMixin, generate_id


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


class MailLogEntry(Model):
    """What became of one mail. It has no content."""

    __tablename__ = "mail_log"
    is_audit_part = True
    __table_args__ = (Index("ix_mail_log_created_at", "created_at"),)

    id: Mapped[str] = mapped_column(String(36), primary_key=True, default=generate_id)
    recipient: Mapped[str]
    template: Mapped[str] = mapped_column(String(64))
    subject: Mapped[str] = mapped_column(default="")
    status: Mapped[str] = mapped_column(String(16))
    """`sent`, `failed`, or `unknown` when a worker was lost while it sent a mail that must not be sent twice."""
    attempts: Mapped[int]
    error: Mapped[str | None] = mapped_column(Text)
    """The mail server's last answer."""
    created_at: Mapped[datetime] = mapped_column(default=clock.now)
