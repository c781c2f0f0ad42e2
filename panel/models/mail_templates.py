"""Texts of mails that operators have written."""

from sqlalchemy import Index, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from panel.core.db import Model, TimestampMixin


class MailTemplate(TimestampMixin, Model):
    """Subject and text of one kind of mail in one language. Without a row, the built-in text is sent."""

    __tablename__ = "mail_templates"
    __table_args__ = (Index("ix_mail_templates_kind_language", "kind", "language", unique=True),)

    kind: Mapped[str] = mapped_column(String(64))
    language: Mapped[str] = mapped_column(String(16))
    subject: Mapped[str]
    text: Mapped[str] = mapped_column(Text)

    @property
    def name(self) -> str:
        """Return the name for the audit log."""
        return f"{self.kind} ({self.language})"
