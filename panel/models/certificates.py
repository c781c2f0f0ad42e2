"""TLS certificates of customers: uploaded, or ordered from an authority that speaks ACME."""

from datetime import datetime, timedelta

from sqlalchemy import JSON, ForeignKey, Index, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from panel.core import clock
from panel.core.db import EncryptedText, MessageText, Model, TimestampMixin

EXPIRY_WARNING = timedelta(days=30)
"""A certificate counts as expiring for so long before its end (LBA-08)."""


class Certificate(TimestampMixin, Model):
    """A certificate with its key. An ordered one has neither until the authority has issued it."""

    __tablename__ = "certificates"
    live_permissions = ("certificates.view", None)
    __table_args__ = (
        Index("ix_certificates_account_id_id", "account_id", "id"),
        Index("ix_certificates_account_id_name", "account_id", "name"),
        Index("ix_certificates_account_id_not_after", "account_id", "not_after"),
        Index("ix_certificates_next_attempt_at", "next_attempt_at"),
    )

    account_id: Mapped[str] = mapped_column(ForeignKey("accounts.id", ondelete="cascade"))
    name: Mapped[str]
    type: Mapped[str] = mapped_column(String(16))
    """`manual` or `letsencrypt`."""
    domains: Mapped[list] = mapped_column(JSON, default=list)
    certificate: Mapped[str | None] = mapped_column(Text)
    """PEM, as it was sent. A web server needs it with the `chain` after it."""
    chain: Mapped[str | None] = mapped_column(Text)
    private_key: Mapped[str | None] = mapped_column(EncryptedText)
    not_before: Mapped[datetime | None]
    not_after: Mapped[datetime | None]
    issuer: Mapped[str | None]
    fingerprint: Mapped[str | None] = mapped_column(String(95))
    """SHA-256, as `openssl x509 -fingerprint -sha256` prints it."""
    key_type: Mapped[str | None] = mapped_column(String(16))

    ordering: Mapped[bool] = mapped_column(default=False)
    """An order is under way."""
    task_id: Mapped[str | None] = mapped_column(String(36))
    """The task of the latest order. Other tasks change nothing here."""
    error: Mapped[str | None] = mapped_column(MessageText)
    """Why the latest order failed, as the authority reported it."""
    error_at: Mapped[datetime | None]
    attempts: Mapped[int] = mapped_column(default=0)
    """Failed attempts in a row."""
    next_attempt_at: Mapped[datetime | None]
    """When it is renewed automatically."""
    order: Mapped[dict | None] = mapped_column(JSON(none_as_null=True))
    """The authority's URLs of the current order, for a worker that continues it."""
    order_key: Mapped[str | None] = mapped_column(EncryptedText)
    """The private key for the certificate of the current order."""

    @property
    def status(self) -> str:
        if self.not_after is None:
            return "failed" if self.error else "pending"
        remaining = self.not_after - clock.now()
        return "active" if remaining > EXPIRY_WARNING else "expiring" if remaining > timedelta(0) else "expired"

    @property
    def days_left(self) -> int | None:
        """Whole days until it expires; 0 after that."""
        return max(0, (self.not_after - clock.now()).days) if self.not_after else None
