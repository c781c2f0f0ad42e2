"""Bearer tokens of all APIs."""

from collections.abc import Set
from datetime import datetime

from sqlalchemy import JSON, ForeignKey, String
from sqlalchemy.orm import Mapped, mapped_column, relationship

from panel.core import clock
from panel.core.db import Model, TimestampMixin
from panel.core.messages import message
from panel.models.accounts import Account
from panel.schemas.constants import SCOPES


class Token(TimestampMixin, Model):
    """Gives a program access. Only a hash of the value is stored; the value itself was shown once."""

    __tablename__ = "tokens"

    kind: Mapped[str] = mapped_column(String(16))
    """`user`, `impersonation`, `admin` or `billing`."""
    account_id: Mapped[str | None] = mapped_column(ForeignKey("accounts.id", ondelete="cascade"), index=True)
    """The person for whom the token acts; empty for admin and billing tokens, which belong to the platform."""
    created_by_id: Mapped[str | None] = mapped_column(ForeignKey("accounts.id", ondelete="cascade"), index=True)
    """The person who made it.

    It differs from `account_id` only for tokens that members made before 3.3.0: these act for the owner, and both see
    them.
    """
    issued_by: Mapped[str | None]
    """Who created an impersonation token, as text."""
    name: Mapped[str]
    description: Mapped[str] = mapped_column(default="")
    prefix: Mapped[str] = mapped_column(String(12), default="")
    """The beginning of the value, so that people can distinguish tokens."""
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
    def is_usable(self) -> bool:
        return self.enabled and (self.expires_at is None or self.expires_at > clock.now())

    @property
    def state(self) -> str:
        return "active" if self.is_usable else "expired" if self.enabled else "off"

    @property
    def created_by(self) -> str | None:
        return self.issued_by or (self.maker.email if self.maker else None)

    @property
    def scope_summary(self) -> str:
        """A short description of its scopes."""
        token_scopes = set(self.scopes)
        if token_scopes in (set(SCOPES), READ_SCOPES):
            return message("Everything, but only to read") if token_scopes == READ_SCOPES else message("Everything")
        families = dict.fromkeys(scope.partition(":")[0] for scope in self.scopes)
        labels = [describe_family(family, token_scopes) for family in families]
        listed, left_out = ", ".join(labels[:MAX_LISTED_FAMILIES]), len(labels) - MAX_LISTED_FAMILIES
        return message("{families} and {count} more", families=listed, count=left_out) if left_out > 0 else listed


READ_SCOPES = {scope for scope in SCOPES if scope.endswith(":read")}
MAX_LISTED_FAMILIES = 3


def describe_family(family: str, scopes: Set[str]) -> str:
    verbs = [verb for verb in ("read", "write") if f"{family}:{verb}" in scopes]
    return family if len(verbs) == 2 else f"{family} ({verbs[0]})"
