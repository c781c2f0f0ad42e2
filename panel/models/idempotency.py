"""Stored answers of requests with an idempotency key."""

from datetime import datetime

from sqlalchemy import Index, String
from sqlalchemy.orm import Mapped, mapped_column

from panel.core import clock
from panel.core.db import EncryptedText, Model, generate_id


class IdempotencyKey(Model):
    """The answer to a request with an `Idempotency-Key`, for repeated requests with the same key."""

    __tablename__ = "idempotency_keys"
    __table_args__ = (Index("uq_idempotency_keys_token_id_key", "token_id", "key", unique=True),)

    id: Mapped[str] = mapped_column(String(36), primary_key=True, default=generate_id)
    token_id: Mapped[str] = mapped_column(String(36))
    """The token or the sandbox key of the request."""
    key: Mapped[str]
    request_hash: Mapped[str] = mapped_column(String(64))
    status: Mapped[int] = mapped_column(default=0)
    answer: Mapped[str] = mapped_column(EncryptedText, default="")
    """The body, encrypted because it may contain a password that is shown once."""
    created_at: Mapped[datetime] = mapped_column(default=clock.now, index=True)
