"""What the panel keeps for authorities that speak ACME (RFC 8555): who it is to them, and what it answers them."""

from sqlalchemy import ForeignKey, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from panel.core.db import EncryptedText, Model, TimestampMixin


class AcmeAccount(TimestampMixin, Model):
    """The installation as an authority knows it. It is made when the first certificate is ordered there."""

    __tablename__ = "acme_accounts"

    directory_url: Mapped[str] = mapped_column(String(500), unique=True)
    key: Mapped[str] = mapped_column(EncryptedText)
    uri: Mapped[str | None] = mapped_column(Text)
    """The authority's name for it; empty until it is registered."""


class AcmeChallenge(TimestampMixin, Model):
    """What is answered to whoever asks for the token, while its order lasts: the proof that a domain leads here."""

    __tablename__ = "acme_challenges"

    certificate_id: Mapped[str] = mapped_column(ForeignKey("certificates.id", ondelete="cascade"), index=True)
    token: Mapped[str] = mapped_column(unique=True)
    answer: Mapped[str] = mapped_column(Text)
