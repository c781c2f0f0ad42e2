"""Accounts of customers and operators, and their browser sessions."""

from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, ForeignKey, Index, String, Text
from sqlalchemy.orm import Mapped, mapped_column, relationship

from panel.core.db import EncryptedText, Model, Money, TimestampMixin

if TYPE_CHECKING:
    from panel.models.team import Member


class Account(TimestampMixin, Model):
    """Somebody who signs in.

    A customer owns resources, a team member works on another account's, an operator runs the platform.
    """

    __tablename__ = "accounts"
    __table_args__ = (Index("ix_accounts_last_login_at_id", "last_login_at", "id"),)

    email: Mapped[str] = mapped_column(unique=True)
    password_hash: Mapped[str | None]
    first_name: Mapped[str] = mapped_column(default="")
    last_name: Mapped[str] = mapped_column(default="")
    company_name: Mapped[str | None]
    timezone: Mapped[str] = mapped_column(String(64), default="UTC")
    language: Mapped[str | None] = mapped_column(String(16))
    """The language that the person has chosen for pages and mails; empty to follow the browser."""
    browser_language: Mapped[str | None] = mapped_column(String(16))
    """The browser's language at the last sign-in, for mails that no request of the person causes."""
    brand_id: Mapped[str | None] = mapped_column(ForeignKey("brands.id", ondelete="set null"), index=True)
    """The brand of the person's mails; null for the default brand."""
    external_id: Mapped[str | None] = mapped_column(unique=True)
    """The billing system's id of the person."""
    operator_role: Mapped[str | None] = mapped_column(String(16))
    """`full`, `support` or `read_only` for operators; empty for customers."""
    suspended_at: Mapped[datetime | None]
    suspended_reason: Mapped[str | None] = mapped_column(Text)
    """The reason that the person is shown."""
    last_login_at: Mapped[datetime | None]
    checklist_dismissed_at: Mapped[datetime | None]
    """When the person hid the checklist of new customers, if so."""
    platform_checklist_dismissed_at: Mapped[datetime | None]
    """When the operator hid the checklist of new platforms, if so."""

    two_factor_at: Mapped[datetime | None]
    """Since when codes from an authenticator are required."""
    totp_secret: Mapped[str | None] = mapped_column(EncryptedText)
    totp_step: Mapped[int | None]
    """The time step of the last used code, so that it cannot be used again."""

    self_provisioning: Mapped[bool] = mapped_column(default=False)
    """Unbilled provisioning: the account is not charged, and may use paid resources while billing is off."""
    balance: Mapped[Decimal] = mapped_column(Money, default=Decimal(0))
    """Credit: the sum of the account's ledger, updated in the same transactions."""
    max_certificates: Mapped[int] = mapped_column(default=0)
    max_dns_zones: Mapped[int] = mapped_column(default=0)
    max_serverless_apps: Mapped[int] = mapped_column(default=5)
    max_kubernetes_clusters: Mapped[int] = mapped_column(default=0)
    max_kubernetes_nodes_per_cluster: Mapped[int] = mapped_column(default=50)
    max_kubernetes_snapshots_per_cluster: Mapped[int] = mapped_column(default=0)

    if TYPE_CHECKING:
        instances: Mapped[int]
        membership: Mapped["Member | None"]
        invitations: Mapped[list["Member"]]

    @property
    def name(self) -> str:
        return f"{self.first_name} {self.last_name}".strip() or self.email

    @property
    def owner(self) -> "Account | None":
        """The owner of the team that the person is in."""
        return self.membership.owner if self.membership else None

    @property
    def owner_id(self) -> str | None:
        return self.membership.owner_id if self.membership else None

    @property
    def membership_id(self) -> str | None:
        return self.membership.id if self.membership else None

    @property
    def is_admin(self) -> bool:
        return self.operator_role is not None

    @property
    def two_factor_enabled(self) -> bool:
        return self.two_factor_at is not None

    def visible_rows(self, model: Any) -> ColumnElement[bool]:
        """Return the condition that a row of this model belongs to the account."""
        return model.account_id == self.id

    def grant_on_create(self, resource: Any) -> None:
        """Do nothing: an owner sees all of the account's resources. Same interface as `Access.grant_on_create`."""


class LoginSession(TimestampMixin, Model):
    """A browser session. The row allows to list and end it; the cookie holds a secret, never the id."""

    __tablename__ = "sessions"
    is_audit_part = True

    account_id: Mapped[str] = mapped_column(ForeignKey("accounts.id", ondelete="cascade"), index=True)
    impersonator_id: Mapped[str | None] = mapped_column(ForeignKey("accounts.id", ondelete="cascade"), index=True)
    """The operator who impersonates the person."""
    device_id: Mapped[str | None] = mapped_column(String(36))
    secret_hash: Mapped[str] = mapped_column(String(64), unique=True)
    expires_at: Mapped[datetime]
    last_seen_at: Mapped[datetime | None]
    ip: Mapped[str] = mapped_column(String(45))
    user_agent: Mapped[str] = mapped_column(String(400), default="")

    account: Mapped[Account] = relationship(lazy="joined", foreign_keys=account_id)
    impersonator: Mapped[Account | None] = relationship(lazy="joined", foreign_keys=impersonator_id)

    @property
    def email(self) -> str:
        return self.account.email

    @property
    def impersonated_by(self) -> str | None:
        """The email address of the operator who impersonates the person, or None."""
        return self.impersonator.email if self.impersonator else None
