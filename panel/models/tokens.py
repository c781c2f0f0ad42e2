"""Bearer tokens of every surface."""

from datetime import datetime

from sqlalchemy import JSON, ForeignKey, String
from sqlalchemy.orm import Mapped, mapped_column, relationship

from panel import clock
from panel.db import Dated, Model
from panel.models.accounts import Account


class Token(Dated, Model):
    """Lets a program act. Only a hash of the value is kept; the value itself was shown once."""

    __tablename__ = "tokens"

    kind: Mapped[str] = mapped_column(String(16))
    """`user`, `impersonation`, `admin` or `billing`."""
    account_id: Mapped[str | None] = mapped_column(ForeignKey("accounts.id", ondelete="cascade"), index=True)
    """Whom the token acts for; empty for admin and billing tokens, which belong to the platform."""
    name: Mapped[str]
    description: Mapped[str] = mapped_column(default="")
    secret_hash: Mapped[str] = mapped_column(String(64), unique=True)
    scopes: Mapped[list] = mapped_column(JSON, default=list)
    allowed_ips: Mapped[list] = mapped_column(JSON, default=list)
    enabled: Mapped[bool] = mapped_column(default=True)
    expires_at: Mapped[datetime | None]
    last_used_at: Mapped[datetime | None]

    account: Mapped[Account | None] = relationship(lazy="joined")

    @property
    def usable(self):
        return self.enabled and (self.expires_at is None or self.expires_at > clock.now())
