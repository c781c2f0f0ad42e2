"""Hypervisor groups (for customers: locations), hypervisors and their storages."""

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from sqlalchemy import JSON, BigInteger, Column, ForeignKey, Index, String, Table
from sqlalchemy.orm import Mapped, mapped_column, query_expression, relationship

from panel.core.db import MessageText, Model, TimestampMixin
from panel.models.hypervisor_group_settings import GroupSettings

if TYPE_CHECKING:
    from panel.models.plans import PlanGroup

group_plan_groups = Table(
    "hypervisor_group_plan_groups",
    Model.metadata,
    Column("group_id", ForeignKey("hypervisor_groups.id", ondelete="cascade"), primary_key=True),
    Column("plan_group_id", ForeignKey("plan_groups.id", ondelete="cascade"), primary_key=True, index=True),
)


class HypervisorGroup(GroupSettings, TimestampMixin, Model):
    """A set of hypervisors that customers choose as one location."""

    __tablename__ = "hypervisor_groups"

    name: Mapped[str] = mapped_column(String(64), unique=True)
    display_name: Mapped[str]
    country: Mapped[str] = mapped_column(String(2), default="")
    public: Mapped[bool] = mapped_column(default=True)
    """Every customer may choose it; else only accounts with a location grant."""

    hypervisors: Mapped[list["Hypervisor"]] = relationship(back_populates="group", order_by="Hypervisor.name")

    @property
    def is_available(self) -> bool:
        """Whether a machine can be placed here now."""
        return any(
            hypervisor.status == "up" and hypervisor.unschedulable_reason is None for hypervisor in self.hypervisors
        )

    plan_groups: Mapped[list["PlanGroup"]] = relationship(
        secondary=group_plan_groups, order_by="PlanGroup.position", back_populates="groups"
    )

    granted: Mapped[bool] = query_expression()
    """Whether the account has a grant. Only `list_choosable` of panel.services.group_grants loads it."""

    if TYPE_CHECKING:
        grants: Mapped[int]


@dataclass(frozen=True)
class Allocation:
    """What is allocated on a hypervisor. Cores and memory include micro VMs, and instances that are migrating to it."""

    instances: int
    cpu_cores: int
    ram: int
    """MiB."""
    storage: int
    """GiB."""


class Hypervisor(TimestampMixin, Model):
    """One host of machines. Workers write the columns below `status`, as they last observed them."""

    __tablename__ = "hypervisors"
    live_permissions = (None, "admin:hypervisors:read")

    group_id: Mapped[str] = mapped_column(ForeignKey("hypervisor_groups.id"), index=True)
    name: Mapped[str] = mapped_column(String(64), unique=True)
    driver: Mapped[str] = mapped_column(String(16))
    uri: Mapped[str]
    network: Mapped[str] = mapped_column(String(64), default="public")
    """The node's name for the network that public interfaces join."""
    deploy_enabled: Mapped[bool] = mapped_column(default=True)
    locked: Mapped[bool] = mapped_column(default=False)
    maintenance: Mapped[bool] = mapped_column(default=False)
    max_tasks: Mapped[int] = mapped_column(default=4)
    """Maximum number of concurrent tasks on the node."""
    cpu_overcommit: Mapped[float] = mapped_column(default=4.0)
    memory_overcommit: Mapped[float] = mapped_column(default=1.0)

    status: Mapped[str] = mapped_column(String(16), default="unknown")
    """`unknown`, `up` or `down`."""
    status_detail: Mapped[str | None] = mapped_column(MessageText)
    seen_at: Mapped[datetime | None]
    version: Mapped[str | None]
    cpu_cores: Mapped[int] = mapped_column(default=0)
    memory_mb: Mapped[int] = mapped_column(default=0)
    accelerated: Mapped[bool] = mapped_column(default=False)
    acceleration_note: Mapped[str | None] = mapped_column(MessageText)
    bandwidth_limits: Mapped[bool] = mapped_column(default=False)
    address_filters: Mapped[bool] = mapped_column(default=False)
    screen_tickets: Mapped[bool] = mapped_column(default=False)
    """Whether its cluster issues a ticket each time a screen is opened."""
    tpm: Mapped[bool] = mapped_column(default=False)
    """Whether it can give machines a TPM (swtpm is installed)."""
    secure_boot: Mapped[bool] = mapped_column(default=False)
    """Whether it has firmware with secure boot for machines (ovmf is installed)."""
    unmanaged_machines: Mapped[list] = mapped_column(JSON, default=list)
    """Unmanaged machines on the node: name and id of each."""

    group: Mapped[HypervisorGroup] = relationship(back_populates="hypervisors")
    storages: Mapped[list["Storage"]] = relationship(back_populates="hypervisor", order_by="Storage.name")

    if TYPE_CHECKING:
        instances_count: Mapped[int]
        allocated_cpu_cores: Mapped[int]
        allocated_ram: Mapped[int]
        allocated_storage: Mapped[int]

    @property
    def allocation(self) -> Allocation:
        return Allocation(self.instances_count, self.allocated_cpu_cores, self.allocated_ram, self.allocated_storage)

    @property
    def unschedulable_reason(self) -> str | None:
        """Why no new machine may be placed here, as a reason code (INS-89 to INS-92), or None."""
        if self.status == "down":
            return "hypervisor_down"
        if self.maintenance:
            return "hypervisor_maintenance"
        if self.locked:
            return "hypervisor_locked"
        return None if self.deploy_enabled else "hypervisor_deploy_disabled"


class Storage(TimestampMixin, Model):
    """A storage pool on one hypervisor."""

    __tablename__ = "storages"
    __table_args__ = (Index("ix_storages_hypervisor_id_name", "hypervisor_id", "name", unique=True),)

    hypervisor_id: Mapped[str] = mapped_column(ForeignKey("hypervisors.id", ondelete="cascade"))
    name: Mapped[str] = mapped_column(String(64))
    path: Mapped[str]
    enabled: Mapped[bool] = mapped_column(default=True)
    overcommit: Mapped[float] = mapped_column(default=1.0)
    capacity: Mapped[int] = mapped_column(BigInteger, default=0)
    free: Mapped[int] = mapped_column(BigInteger, default=0)
    """Bytes, as the node last reported them."""

    hypervisor: Mapped[Hypervisor] = relationship(back_populates="storages")

    if TYPE_CHECKING:
        allocated: Mapped[int]
        """GiB of disks, volumes, volume snapshots and micro VMs, including disks that are migrating to it."""
