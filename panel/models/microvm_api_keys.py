"""Keys of the sandbox API."""

from datetime import datetime

from sqlalchemy import ForeignKey, String
from sqlalchemy.orm import Mapped, mapped_column, relationship

from panel.core.db import Model, TimestampMixin
from panel.models.accounts import Account


class MicrovmApiKey(TimestampMixin, Model):
    """Gives sandbox SDKs access to an account's micro VMs. Only a hash of the value is stored."""

    __tablename__ = "microvm_api_keys"

    account_id: Mapped[str] = mapped_column(ForeignKey("accounts.id", ondelete="cascade"), index=True)
    """The account to which the key belongs and whose micro VMs it reaches."""
    name: Mapped[str]
    prefix: Mapped[str] = mapped_column(String(12))
    """The beginning of the value, so that people can distinguish keys."""
    secret_hash: Mapped[str] = mapped_column(String(64), unique=True)
    revoked_at: Mapped[datetime | None]
    """A revoked key stays in the list and never works again."""
    last_used_at: Mapped[datetime | None]
    last_used_ip: Mapped[str | None] = mapped_column(String(45))

    account: Mapped[Account] = relationship()

    @property
    def status(self) -> str:
        return "Revoked" if self.revoked_at else "Active"
