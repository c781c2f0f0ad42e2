"""Webhook subscriptions and deliveries."""

from datetime import datetime
from urllib.parse import urlsplit

from sqlalchemy import JSON, ForeignKey, Index, String, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column, relationship, validates

from panel.core import clock
from panel.core.db import EncryptedText, MessageText, Model, TimestampMixin
from panel.models.events import Event

OPEN_DELIVERY_STATUSES = ("pending", "pending_retry")
"""Statuses of a delivery with another attempt to come."""

OPEN_DELIVERY_SQL = "status in ('pending', 'pending_retry')"
"""The condition of the partial indexes for open deliveries, which are few."""


class WebhookSubscription(TimestampMixin, Model):
    """An HTTPS URL that receives the events of its account."""

    __tablename__ = "webhook_subscriptions"
    __table_args__ = (Index("ix_webhook_subscriptions_account_id_id", "account_id", "id"),)

    account_id: Mapped[str] = mapped_column(ForeignKey("accounts.id", ondelete="cascade"))
    name: Mapped[str]
    url: Mapped[str] = mapped_column(String(1024))
    host: Mapped[str]
    """Host and port of the URL, to limit the concurrent runs of one receiver."""
    secret: Mapped[str] = mapped_column(EncryptedText)
    event_kinds: Mapped[list] = mapped_column(JSON)
    """Exact kinds, or `*` for all."""
    cluster_filter: Mapped[list | None] = mapped_column(JSON)
    """Ids of the clusters whose events are sent; empty for all. Events of instances are always sent."""
    enabled: Mapped[bool] = mapped_column(default=True)
    consecutive_failures: Mapped[int] = mapped_column(default=0)
    """Deliveries given up since the last successful one."""
    last_delivery_status: Mapped[str | None] = mapped_column(String(16))
    disabled_at: Mapped[datetime | None]
    """When it was disabled because of too many failures; empty when a person disabled it."""
    is_fast: Mapped[bool] = mapped_column(default=False)
    """Its last attempt succeeded fast. Others are served by separate threads, so that they do not delay these."""
    leased_by: Mapped[str | None] = mapped_column(String(64))
    leased_until: Mapped[datetime | None]
    """End of the dispatcher's lease: only one serves it at a time, which keeps the order.

    Without `leased_by`, when it was served last.
    """

    @validates("url")
    def set_host(self, _: str, url: str) -> str:
        self.host = urlsplit(url).netloc[:255]
        return url


class WebhookDelivery(TimestampMixin, Model):
    """One event on its way to one subscription.

    It is deleted with either of them; events are deleted after seven days.
    """

    __tablename__ = "webhook_deliveries"
    __table_args__ = (
        UniqueConstraint("subscription_id", "event_id"),
        Index("ix_webhook_deliveries_subscription_id_id", "subscription_id", "id"),
        Index(
            "ix_webhook_deliveries_due",
            "subscription_id",
            "due_at",
            sqlite_where=text(OPEN_DELIVERY_SQL),
            postgresql_where=text(OPEN_DELIVERY_SQL),
        ),
        Index(
            "ix_webhook_deliveries_under_way",
            "subscription_id",
            "id",
            sqlite_where=text(OPEN_DELIVERY_SQL),
            postgresql_where=text(OPEN_DELIVERY_SQL),
        ),
    )

    account_id: Mapped[str] = mapped_column(ForeignKey("accounts.id", ondelete="cascade"), index=True)
    subscription_id: Mapped[str] = mapped_column(ForeignKey("webhook_subscriptions.id", ondelete="cascade"))
    event_id: Mapped[str | None] = mapped_column(ForeignKey("events.id", ondelete="cascade"), index=True)
    """Empty for a test, whose event is a sample (panel.services.webhooks.samples)."""
    event_kind: Mapped[str] = mapped_column(String(48))
    status: Mapped[str] = mapped_column(String(16), default="pending")
    """`pending`, `pending_retry`, `delivered` or `failed_permanent`."""
    attempts: Mapped[int] = mapped_column(default=0)
    due_at: Mapped[datetime] = mapped_column(default=clock.now)
    response_code: Mapped[int | None]
    duration_ms: Mapped[int | None]
    error: Mapped[str | None] = mapped_column(MessageText)
    """Why the last attempt failed, as a sentence."""
    tries: Mapped[list] = mapped_column(JSON, default=list)
    """The attempts, oldest first: `{id, at, code, duration_ms, error, body}`.

    `error` is a stored message, `body` the first 2 KB of the answer, and `id` is sent as X-Hypervisor-Delivery.
    """
    test: Mapped[bool] = mapped_column(default=False)

    subscription: Mapped[WebhookSubscription] = relationship()
    event: Mapped[Event | None] = relationship()
