"""Where notifications of alerts go, and the notifications that wait to be sent."""

import json
from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Index, String, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column, relationship

from panel.core import clock
from panel.core.db import EncryptedText, MessageText, Model, TimestampMixin

WAITING_SQL = "status = 'pending'"
"""The condition of the partial index for notifications with another attempt to come, which are few."""


class NotificationChannel(TimestampMixin, Model):
    """A receiver of an account's alerts."""

    __tablename__ = "notification_channels"
    __table_args__ = (Index("ix_notification_channels_account_id_name", "account_id", "name", "id"),)

    account_id: Mapped[str] = mapped_column(ForeignKey("accounts.id", ondelete="cascade"))
    name: Mapped[str]
    type: Mapped[str] = mapped_column(String(16))
    encrypted_config: Mapped[str] = mapped_column(EncryptedText)
    """JSON. Addresses of chat services are secrets too: whoever knows one can write to the chat."""
    enabled: Mapped[bool] = mapped_column(default=True)
    auto_disabled: Mapped[bool] = mapped_column(default=False)
    """It was disabled because of too many failures."""
    failure_count: Mapped[int] = mapped_column(default=0)
    """Notifications given up since the last successful one."""
    last_sent_at: Mapped[datetime | None]
    last_error: Mapped[str | None] = mapped_column(MessageText)
    """Why the last attempt failed; empty when it succeeded."""

    @property
    def config(self) -> dict[str, Any]:
        return json.loads(self.encrypted_config)


class AlertNotification(TimestampMixin, Model):
    """One message on its way to one channel, for a change of an alert or as a test."""

    __tablename__ = "alert_notifications"
    is_audit_part = True
    __table_args__ = (
        UniqueConstraint("event_id", "channel_id"),
        Index("ix_alert_notifications_channel_id_id", "channel_id", "id"),
        Index("ix_alert_notifications_created_at", "created_at"),
        Index(
            "ix_alert_notifications_due_at_id",
            "due_at",
            "id",
            sqlite_where=text(WAITING_SQL),
            postgresql_where=text(WAITING_SQL),
        ),
    )

    channel_id: Mapped[str] = mapped_column(ForeignKey("notification_channels.id", ondelete="cascade"))
    event_id: Mapped[str | None] = mapped_column(ForeignKey("alert_events.id", ondelete="cascade"))
    """Empty for a test."""
    status: Mapped[str] = mapped_column(String(16), default="pending")
    """`pending`, `delivered` or `failed`."""
    attempts: Mapped[int] = mapped_column(default=0)
    due_at: Mapped[datetime] = mapped_column(default=clock.now)
    error: Mapped[str | None] = mapped_column(MessageText)

    channel: Mapped[NotificationChannel] = relationship()
