"""People: customers and operators."""

from datetime import datetime

from sqlalchemy import ForeignKey, String
from sqlalchemy.orm import Mapped, mapped_column, relationship

from panel.db import Dated, Model


class Account(Dated, Model):
    """Somebody who signs in. A customer owns resources; an operator also runs the platform."""

    __tablename__ = "accounts"

    email: Mapped[str] = mapped_column(unique=True)
    password_hash: Mapped[str | None]
    first_name: Mapped[str] = mapped_column(default="")
    last_name: Mapped[str] = mapped_column(default="")
    company_name: Mapped[str | None]
    timezone: Mapped[str] = mapped_column(String(64), default="UTC")
    operator_role: Mapped[str | None] = mapped_column(String(16))
    """`full` for those who run the platform; empty for customers."""
    suspended_at: Mapped[datetime | None]
    last_login_at: Mapped[datetime | None]

    @property
    def name(self):
        return f"{self.first_name} {self.last_name}".strip() or self.email

    @property
    def is_admin(self):
        return self.operator_role is not None


class SignIn(Dated, Model):
    """A signed-in browser. Kept here so that it can be listed and ended; the cookie holds a secret, never the id."""

    __tablename__ = "sessions"

    account_id: Mapped[str] = mapped_column(ForeignKey("accounts.id", ondelete="cascade"), index=True)
    secret_hash: Mapped[str] = mapped_column(String(64), unique=True)
    expires_at: Mapped[datetime]
    ip: Mapped[str] = mapped_column(String(45))
    user_agent: Mapped[str] = mapped_column(String(400), default="")

    account: Mapped[Account] = relationship(lazy="joined")
