"""Messages in people's inboxes, what they were caused by, and which of them a person wants."""

from datetime import datetime

from sqlalchemy import ForeignKey, Index, String, text
from sqlalchemy.orm import Mapped, mapped_column

from panel.core import clock
from panel.core.db import MessageText, Model, generate_id

UNREAD_SQL = "read_at is null"
"""The condition of the partial index that counts the badge of every page."""


class InboxMessage(Model):
    """One message for one person."""

    __tablename__ = "inbox_messages"
    is_audit_part = True
    live_permissions = (None, None)
    is_personal = True
    __table_args__ = (
        Index("ix_inbox_messages_account_id_id", "account_id", "id"),
        Index(
            "ix_inbox_messages_unread",
            "account_id",
            "id",
            sqlite_where=text(UNREAD_SQL),
            postgresql_where=text(UNREAD_SQL),
        ),
        Index("ix_inbox_messages_created_at", "created_at"),
    )

    id: Mapped[str] = mapped_column(String(36), primary_key=True, default=generate_id)
    account_id: Mapped[str] = mapped_column(ForeignKey("accounts.id", ondelete="cascade"))
    """The person who reads it."""
    owner_id: Mapped[str | None] = mapped_column(ForeignKey("accounts.id", ondelete="cascade"))
    """The account that it is about; empty when it is about the person. Members who left the team do not see it."""
    kind: Mapped[str] = mapped_column(String(16))
    severity: Mapped[str] = mapped_column(String(8))
    """`info`, `warning` or `error`."""
    text: Mapped[str] = mapped_column(MessageText)
    path: Mapped[str | None]
    """The page to open."""
    resource_type: Mapped[str | None] = mapped_column(String(32))
    resource_id: Mapped[str | None] = mapped_column(String(36))
    read_at: Mapped[datetime | None]
    created_at: Mapped[datetime] = mapped_column(default=clock.now)


class InboxCause(Model):
    """What was reported, so that jobs that run again do not report it again. Stored longer than the messages."""

    __tablename__ = "inbox_causes"
    is_audit_part = True
    __table_args__ = (Index("ix_inbox_causes_created_at", "created_at"),)

    key: Mapped[str] = mapped_column(String(160), primary_key=True)
    created_at: Mapped[datetime] = mapped_column(default=clock.now)


class InboxPreference(Model):
    """Where a person wants messages of a kind. Without a row the default of the kind holds."""

    __tablename__ = "inbox_preferences"
    is_audit_part = True

    account_id: Mapped[str] = mapped_column(ForeignKey("accounts.id", ondelete="cascade"), primary_key=True)
    kind: Mapped[str] = mapped_column(String(16), primary_key=True)
    inbox: Mapped[bool]
    mail: Mapped[bool]
