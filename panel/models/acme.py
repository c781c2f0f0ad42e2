"""State for certificate authorities that speak ACME (RFC 8555): the account and the answers to challenges."""

from sqlalchemy import ForeignKey, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from panel.core.db import EncryptedText, Model, TimestampMixin


class AcmeAccount(TimestampMixin, Model):
    """The installation's account at an authority. It is created with the first certificate that is ordered there."""

    __tablename__ = "acme_accounts"

    directory_url: Mapped[str] = mapped_column(String(500), unique=True)
    key: Mapped[str] = mapped_column(EncryptedText)
    uri: Mapped[str | None] = mapped_column(Text)
    """The authority's URI of it; empty until it is registered."""


class AcmeChallenge(TimestampMixin, Model):
    """The answer to a request for this token while its order is open. It proves control of the domain."""

    __tablename__ = "acme_challenges"

    certificate_id: Mapped[str] = mapped_column(ForeignKey("certificates.id", ondelete="cascade"), index=True)
    token: Mapped[str] = mapped_column(unique=True)
    answer: Mapped[str] = mapped_column(Text)
