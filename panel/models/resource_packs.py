"""Resource packs: budgets of processors, memory and disk from which customers provision instances by themselves."""

from decimal import Decimal

from sqlalchemy import ForeignKey, Index, Numeric, String, Text
from sqlalchemy.orm import Mapped, mapped_column, relationship

from panel.core.db import Model, TimestampMixin
from panel.models.accounts import Account
from panel.models.hypervisors import HypervisorGroup
from panel.models.instances import Instance


class ResourcePack(TimestampMixin, Model):
    """What an account may use in all for the instances that are made from the pack. Its price is for the whole of it:
    those instances cost nothing more."""

    __tablename__ = "resource_packs"
    __table_args__ = (Index("ix_resource_packs_account_id_id", "account_id", "id"),)

    account_id: Mapped[str] = mapped_column(ForeignKey("accounts.id"))
    group_id: Mapped[str | None] = mapped_column(ForeignKey("hypervisor_groups.id"), index=True)
    """The location that it is for; empty for all."""
    name: Mapped[str] = mapped_column(String(64))
    description: Mapped[str | None] = mapped_column(Text)
    enabled: Mapped[bool] = mapped_column(default=True)
    cpu_cores: Mapped[int]
    ram: Mapped[int]
    """MiB."""
    storage: Mapped[int]
    """GiB."""
    instances: Mapped[int] = mapped_column(default=0)
    """How many there may be; 0 is unlimited."""
    price: Mapped[Decimal] = mapped_column(Numeric(12, 4), default=Decimal(0))
    """A month, in the installation's currency."""

    account: Mapped[Account] = relationship()
    group: Mapped[HypervisorGroup | None] = relationship()

    @property
    def owner_email(self):
        return self.account.email

    @property
    def location_name(self):
        return self.group and self.group.display_name


Instance.pack = relationship(ResourcePack)
"""What it was taken from, if anything."""
