"""Authentication besides the password: passkeys, recovery codes, one-time tokens and known devices."""

from datetime import datetime

from sqlalchemy import ForeignKey, Index, String, Text
from sqlalchemy.orm import Mapped, mapped_column, relationship

from panel.core.db import Model, TimestampMixin
from panel.models.accounts import Account


class Passkey(TimestampMixin, Model):
    """A WebAuthn credential. It replaces password and second factor, because the device verifies its user."""

    __tablename__ = "passkeys"

    account_id: Mapped[str] = mapped_column(ForeignKey("accounts.id", ondelete="cascade"), index=True)
    name: Mapped[str] = mapped_column(String(64))
    host: Mapped[str | None]
    """The host name that it works for (WebAuthn's relying party); null for the host of the public address."""
    credential_id: Mapped[str] = mapped_column(String(1400), unique=True)
    """base64url, as browsers encode it."""
    public_key: Mapped[str] = mapped_column(Text)
    """COSE, base64url."""
    sign_count: Mapped[int] = mapped_column(default=0)
    last_used_at: Mapped[datetime | None]

    account: Mapped[Account] = relationship()


class RecoveryCode(TimestampMixin, Model):
    """A code that replaces the second factor once. It is deleted when used."""

    __tablename__ = "recovery_codes"
    is_audit_part = True
    __table_args__ = (Index("ix_recovery_codes_account_id_secret_hash", "account_id", "secret_hash", unique=True),)

    account_id: Mapped[str] = mapped_column(ForeignKey("accounts.id", ondelete="cascade"))
    secret_hash: Mapped[str] = mapped_column(String(64))


class OneTimeToken(TimestampMixin, Model):
    """A link that works once, until it expires. The URL holds the secret, the row only its hash."""

    __tablename__ = "one_time_tokens"
    is_audit_part = True
    __table_args__ = (Index("ix_one_time_tokens_account_id_purpose", "account_id", "purpose"),)

    account_id: Mapped[str] = mapped_column(ForeignKey("accounts.id", ondelete="cascade"))
    purpose: Mapped[str] = mapped_column(String(16))
    """`reset`, `sso`, …: the link works for this purpose only."""
    secret_hash: Mapped[str] = mapped_column(String(64), unique=True)
    expires_at: Mapped[datetime] = mapped_column(index=True)
    redirect_to: Mapped[str | None]
    """The page to redirect to, where that varies."""

    account: Mapped[Account] = relationship(lazy="joined")


class KnownDevice(TimestampMixin, Model):
    """A browser in which somebody has signed in before. Its cookie holds one secret for all its users."""

    __tablename__ = "known_devices"
    is_audit_part = True
    __table_args__ = (Index("ix_known_devices_account_id_secret_hash", "account_id", "secret_hash", unique=True),)

    account_id: Mapped[str] = mapped_column(ForeignKey("accounts.id", ondelete="cascade"))
    secret_hash: Mapped[str] = mapped_column(String(64))
    user_agent: Mapped[str] = mapped_column(String(400), default="")
    ip: Mapped[str] = mapped_column(String(45))
    last_seen_at: Mapped[datetime] = mapped_column(index=True)
