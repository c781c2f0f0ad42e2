"""Teams: members of an account, their roles, and the resources they were granted."""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from sqlalchemy import JSON, ForeignKey, Index, String, func, select
from sqlalchemy.orm import Mapped, column_property, mapped_column, relationship

from panel.core import clock
from panel.core.db import Model, TimestampMixin
from panel.models.accounts import Account

INVITATION_TTL = timedelta(days=7)
"""How long the link of an invitation works."""


class Role(TimestampMixin, Model):
    """A named set of permissions that an account's owner gives to members."""

    __tablename__ = "roles"
    __table_args__ = (Index("ix_roles_account_id_name", "account_id", "name", unique=True),)

    account_id: Mapped[str] = mapped_column(ForeignKey("accounts.id", ondelete="cascade"))
    """The account whose team it belongs to."""
    name: Mapped[str] = mapped_column(String(64))
    description: Mapped[str | None]
    permissions: Mapped[list] = mapped_column(JSON, default=list)

    if TYPE_CHECKING:
        members: Mapped[int]


class Member(TimestampMixin, Model):
    """One person of a team; only an address until the invitation is accepted. A person is in at most one team."""

    __tablename__ = "members"
    __table_args__ = (
        Index("ix_members_owner_id_email", "owner_id", "email", unique=True),
        Index("ix_members_owner_id_id", "owner_id", "id"),
    )

    owner_id: Mapped[str] = mapped_column(ForeignKey("accounts.id", ondelete="cascade"))
    account_id: Mapped[str | None] = mapped_column(ForeignKey("accounts.id", ondelete="cascade"), unique=True)
    role_id: Mapped[str] = mapped_column(ForeignKey("roles.id"), index=True)
    email: Mapped[str]
    reach: Mapped[str] = mapped_column(String(16), default="all")
    """`all` resources of the owner, those of `projects`, or `chosen` ones."""
    invited_at: Mapped[datetime]
    invitation_hash: Mapped[str | None] = mapped_column(String(64), unique=True)
    """Hash of the secret in the invitation's link; empty once it was accepted."""

    owner: Mapped[Account] = relationship(foreign_keys=owner_id)
    account: Mapped[Account | None] = relationship(foreign_keys=account_id)
    role: Mapped[Role] = relationship()
    grants: Mapped[list["ResourceGrant"]] = relationship(cascade="all, delete-orphan", passive_deletes=True)

    @property
    def status(self) -> str:
        if self.account:
            return "suspended" if self.account.suspended_at else "active"
        return "expired" if self.invited_at + INVITATION_TTL < clock.now() else "invited"

    @property
    def name(self) -> str | None:
        return self.account.name if self.account else None

    @property
    def role_name(self) -> str:
        return self.role.name

    @property
    def project_ids(self) -> list[str]:
        return [
            grant.resource_id for grant in self.grants if self.reach == "projects" and grant.resource_type == "project"
        ]

    @property
    def resource_ids(self) -> list[str]:
        """Resources that were granted individually, or that the member created."""
        return [grant.resource_id for grant in self.grants if grant.resource_type != "project"]

    @property
    def two_factor_enabled(self) -> bool:
        return bool(self.account and self.account.two_factor_at)

    @property
    def last_login_at(self) -> datetime | None:
        return self.account.last_login_at if self.account else None


Role.members = column_property(
    select(func.count()).select_from(Member).where(Member.role_id == Role.id).correlate(Role).scalar_subquery(),
    deferred=True,
)
"""How many members have it. Lists load it with `undefer`."""

Account.membership = relationship(Member, foreign_keys=Member.account_id, uselist=False, viewonly=True)
"""The person's membership of another account's team."""

Account.invitations = relationship(
    Member,
    primaryjoin=(Member.owner_id == Account.id) & Member.account_id.is_(None),
    foreign_keys=Member.owner_id,
    order_by=Member.id,
    viewonly=True,
)
"""Invitations to the account's team that nobody has accepted yet."""


class ResourceGrant(Model):
    """One resource, or one project with its resources, that was granted to a member."""

    __tablename__ = "resource_grants"
    is_audit_part = True

    member_id: Mapped[str] = mapped_column(ForeignKey("members.id", ondelete="cascade"), primary_key=True)
    resource_id: Mapped[str] = mapped_column(String(36), primary_key=True)
    resource_type: Mapped[str] = mapped_column(String(32))
