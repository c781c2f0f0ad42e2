"""Bearer tokens of every surface."""

from datetime import datetime

from sqlalchemy import JSON, ForeignKey, String
from sqlalchemy.orm import Mapped, mapped_column, relationship

from panel.core import clock
from panel.core.db import Model, TimestampMixin
from panel.models.accounts import Account
from panel.schemas.constants import SCOPES


class Token(TimestampMixin, Model):
    """Lets a program act. Only a hash of the value is kept; the value itself was shown once."""

    __tablename__ = "tokens"

    kind: Mapped[str] = mapped_column(String(16))
    """`user`, `impersonation`, `admin` or `billing`."""
    account_id: Mapped[str | None] = mapped_column(ForeignKey("accounts.id", ondelete="cascade"), index=True)
    """The person whom the token acts for; empty for admin and billing tokens, which belong to the platform."""
    created_by_id: Mapped[str | None] = mapped_column(ForeignKey("accounts.id", ondelete="cascade"), index=True)
    """The person who made it: somebody else than `account_id` only for tokens that members made before 3.3.0, which
    act as the owner and which both see."""
    issued_by: Mapped[str | None]
    """Who minted an impersonation token, in words."""
    name: Mapped[str]
    description: Mapped[str] = mapped_column(default="")
    prefix: Mapped[str] = mapped_column(String(12), default="")
    """The beginning of the value, to tell tokens apart."""
    secret_hash: Mapped[str] = mapped_column(String(64), unique=True)
    scopes: Mapped[list] = mapped_column(JSON, default=list)
    allowed_ips: Mapped[list] = mapped_column(JSON, default=list)
    enabled: Mapped[bool] = mapped_column(default=True)
    expires_at: Mapped[datetime | None]
    last_used_at: Mapped[datetime | None]
    last_used_ip: Mapped[str | None] = mapped_column(String(45))

    account: Mapped[Account | None] = relationship(foreign_keys=account_id)
    maker: Mapped[Account | None] = relationship(foreign_keys=created_by_id)

    @property
    def is_usable(self):
        return self.enabled and (self.expires_at is None or self.expires_at > clock.now())

    @property
    def state(self):
        return "active" if self.is_usable else "expired" if self.enabled else "off"

    @property
    def created_by(self):
        return self.issued_by or (self.maker.email if self.maker else None)

    @property
    def scope_summary(self):
        """What it opens, in few words."""
        held = set(self.scopes)
        if held in (set(SCOPES), READ_SCOPES):
            return "Everything, but only to read" if held == READ_SCOPES else "Everything"
        families = dict.fromkeys(scope.partition(":")[0] for scope in self.scopes)
        words = [describe_family(family, held) for family in families]
        return ", ".join(words[:MAX_SHOWN_FAMILIES]) + (
            f" and {len(words) - MAX_SHOWN_FAMILIES} more" if len(words) > MAX_SHOWN_FAMILIES else ""
        )


READ_SCOPES = {scope for scope in SCOPES if scope.endswith(":read")}
MAX_SHOWN_FAMILIES = 3


def describe_family(family, held):
    verbs = [verb for verb in ("read", "write") if f"{family}:{verb}" in held]
    return family if len(verbs) == 2 else f"{family} ({verbs[0]})"
