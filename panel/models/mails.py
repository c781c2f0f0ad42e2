"""Mails that wait to be sent."""

import json
from datetime import datetime

from sqlalchemy import Index, String
from sqlalchemy.orm import Mapped, mapped_column

from panel.core import clock
from panel.core.db import EncryptedText, Model, TimestampMixin


class Mail(TimestampMixin, Model):
    """One mail to one address. The row is deleted once the mail was sent, so nothing of it stays here."""

    __tablename__ = "mails"
    __table_args__ = (Index("ix_mails_due_at_id", "due_at", "id"),)

    recipient: Mapped[str]
    template: Mapped[str] = mapped_column(String(64))
    sealed: Mapped[str] = mapped_column(EncryptedText)
    """What the template is filled with, as JSON. There may be a link in it that opens an account."""
    attempts: Mapped[int] = mapped_column(default=0)
    due_at: Mapped[datetime] = mapped_column(default=clock.now)
    error: Mapped[str | None]
    """What the mail server said to the last attempt."""

    @property
    def facts(self):
        return json.loads(self.sealed)
