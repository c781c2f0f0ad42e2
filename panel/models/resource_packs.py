"""Resource packs: processors, memory and disk space from which customers provision instances themselves."""

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from sqlalchemy import ForeignKey, Index, Numeric, String, Text
from sqlalchemy.orm import Mapped, mapped_column, relationship

from panel.core.db import Model, TimestampMixin
from panel.models.accounts import Account
from panel.models.hypervisors import HypervisorGroup


@dataclass(frozen=True)
class PackUsage:
    """What the instances of a resource pack use."""

    instances: int
    cpu_cores: int
    ram: int
    """MiB."""
    storage: int
    """GiB."""


class ResourcePack(TimestampMixin, Model):
    """The total that an account's instances from the pack may use. The pack's price covers all of them."""

    __tablename__ = "resource_packs"
    __table_args__ = (Index("ix_resource_packs_account_id_id", "account_id", "id"),)

    account_id: Mapped[str] = mapped_column(ForeignKey("accounts.id"))
    group_id: Mapped[str | None] = mapped_column(ForeignKey("hypervisor_groups.id"), index=True)
    """The location that it is valid for; empty for all."""
    name: Mapped[str] = mapped_column(String(64))
    description: Mapped[str | None] = mapped_column(Text)
    enabled: Mapped[bool] = mapped_column(default=True)
    cpu_cores: Mapped[int]
    ram: Mapped[int]
    """MiB."""
    storage: Mapped[int]
    """GiB."""
    instances: Mapped[int] = mapped_column(default=0)
    """Maximum number of instances; 0 is unlimited."""
    price: Mapped[Decimal] = mapped_column(Numeric(12, 4), default=Decimal(0))
    """A month, in the installation's currency."""

    account: Mapped[Account] = relationship()
    group: Mapped[HypervisorGroup | None] = relationship()

    if TYPE_CHECKING:
        used_instances: Mapped[int]
        used_cpu_cores: Mapped[int]
        used_ram: Mapped[int]
        used_storage: Mapped[int]

    @property
    def used(self) -> PackUsage:
        return PackUsage(self.used_instances, self.used_cpu_cores, self.used_ram, self.used_storage)

    @property
    def owner_email(self) -> str:
        return self.account.email

    @property
    def location_name(self) -> str | None:
        return self.group.display_name if self.group else None
