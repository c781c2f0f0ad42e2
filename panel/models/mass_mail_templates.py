"""Subjects and texts that operators keep for later mass mails."""

from sqlalchemy import Index, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from panel.core.db import Model, TimestampMixin


class MassMailTemplate(TimestampMixin, Model):
    """A subject and text to begin a mass mail with. Mass mails that were made from it do not change with it."""

    __tablename__ = "mass_mail_templates"
    __table_args__ = (Index("ix_mass_mail_templates_name", "name", unique=True),)

    name: Mapped[str] = mapped_column(String(100))
    subject: Mapped[str]
    text: Mapped[str] = mapped_column(Text)
