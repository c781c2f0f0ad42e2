"""Which accounts may use a hypervisor group that is not public."""

from sqlalchemy import ForeignKey, Index, func, select
from sqlalchemy.orm import Mapped, column_property, mapped_column, relationship

from panel.core.db import Model, TimestampMixin
from panel.models.accounts import Account
from panel.models.hypervisors import HypervisorGroup


class LocationGrant(TimestampMixin, Model):
    """An account that may choose the group, with its team."""

    __tablename__ = "location_grants"
    is_audit_part = True
    __table_args__ = (
        Index("ix_location_grants_group_id_account_id", "group_id", "account_id", unique=True),
        Index("ix_location_grants_account_id_group_id", "account_id", "group_id"),
    )

    group_id: Mapped[str] = mapped_column(ForeignKey("hypervisor_groups.id", ondelete="cascade"))
    account_id: Mapped[str] = mapped_column(ForeignKey("accounts.id", ondelete="cascade"))

    account: Mapped[Account] = relationship()
    group: Mapped[HypervisorGroup] = relationship()

    @property
    def email(self) -> str:
        return self.account.email

    @property
    def account_name(self) -> str:
        return self.account.name


HypervisorGroup.grants = column_property(
    select(func.count())
    .select_from(LocationGrant)
    .where(LocationGrant.group_id == HypervisorGroup.id)
    .correlate(HypervisorGroup)
    .scalar_subquery(),
    deferred=True,
)
"""How many accounts have a grant of it."""
