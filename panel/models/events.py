"""Events, written in the transaction of the change that they describe."""

from datetime import datetime

from sqlalchemy import JSON, ForeignKey, Index, String, text
from sqlalchemy.orm import Mapped, mapped_column

from panel.core import clock
from panel.core.db import MessageText, Model, generate_id

NOT_FANNED_OUT_SQL = "fanned_out_at is null"


class Event(Model):
    """One event of one resource (WHK-02)."""

    __tablename__ = "events"
    is_audit_part = True
    live_permissions = ("instances.view", None)
    __table_args__ = (
        Index("ix_events_account_id_id", "account_id", "id"),
        Index("ix_events_resource_id_id", "resource_id", "id"),
        Index("ix_events_created_at", "created_at"),
        Index(
            "ix_events_not_fanned_out",
            "resource_type",
            "id",
            sqlite_where=text(NOT_FANNED_OUT_SQL),
            postgresql_where=text(NOT_FANNED_OUT_SQL),
        ),
    )

    id: Mapped[str] = mapped_column(String(36), primary_key=True, default=generate_id)
    account_id: Mapped[str | None] = mapped_column(ForeignKey("accounts.id", ondelete="cascade"))
    kind: Mapped[str] = mapped_column(String(48))
    resource_type: Mapped[str] = mapped_column(String(32))
    resource_id: Mapped[str] = mapped_column(String(36))
    data: Mapped[dict] = mapped_column(JSON, default=dict)
    snapshot: Mapped[dict | None] = mapped_column(JSON)
    """The resource at that time, as in webhook payloads, because it may be deleted before delivery."""
    severity: Mapped[str | None] = mapped_column(String(8))
    """`info`, `warning` or `error`. Only Kubernetes events have a severity and a message."""
    message: Mapped[str | None] = mapped_column(MessageText)
    actor: Mapped[str] = mapped_column(default="system")
    created_at: Mapped[datetime] = mapped_column(default=clock.now)
    fanned_out_at: Mapped[datetime | None]
    """When its deliveries to webhooks were created; empty until then."""
