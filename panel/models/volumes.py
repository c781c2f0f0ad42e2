"""Volumes, their plans and their snapshots. Volumes outlive the instances they are attached to."""

from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING

from sqlalchemy import ForeignKey, Index, Numeric, String
from sqlalchemy.orm import Mapped, foreign, mapped_column, relationship

from panel.core.db import MessageText, Model, TimestampMixin
from panel.models.accounts import Account
from panel.models.hypervisors import HypervisorGroup, Storage
from panel.models.instances import Instance
from panel.models.tasks import Task

if TYPE_CHECKING:
    from panel.models.instance_backups import InstanceBackup


class VolumePlanGroup(TimestampMixin, Model):
    """A class of volume plans. A volume stays in its class."""

    __tablename__ = "volume_plan_groups"

    name: Mapped[str] = mapped_column(String(64), unique=True)
    display_name: Mapped[str]
    position: Mapped[int] = mapped_column(default=0)
    enabled: Mapped[bool] = mapped_column(default=True)

    plans: Mapped[list["VolumePlan"]] = relationship(back_populates="group", order_by="VolumePlan.position")


class VolumePlan(TimestampMixin, Model):
    """A size of volume and its price."""

    __tablename__ = "volume_plans"
    __table_args__ = (Index("ix_volume_plans_volume_plan_group_id_name", "volume_plan_group_id", "name", unique=True),)

    volume_plan_group_id: Mapped[str] = mapped_column(ForeignKey("volume_plan_groups.id"))
    name: Mapped[str] = mapped_column(String(64))
    position: Mapped[int] = mapped_column(default=0)
    enabled: Mapped[bool] = mapped_column(default=True)
    size: Mapped[int]
    """GiB."""
    price: Mapped[Decimal] = mapped_column(Numeric(12, 4), default=Decimal(0))
    """A month, in the installation's currency."""

    group: Mapped[VolumePlanGroup] = relationship(back_populates="plans")


class Volume(TimestampMixin, Model):
    """A volume of an account.

    It is a disk in a storage of one hypervisor and is attached there; until its first use it may still move to another.
    """

    __tablename__ = "volumes"
    live_permissions = ("volumes.view", "admin:volumes:read")
    __table_args__ = (
        Index("ix_volumes_account_id_id", "account_id", "id"),
        Index("ix_volumes_account_id_name_id", "account_id", "name", "id"),
        Index("ix_volumes_name_id", "name", "id"),
    )

    name: Mapped[str]
    account_id: Mapped[str] = mapped_column(ForeignKey("accounts.id"))
    project_id: Mapped[str | None] = mapped_column(ForeignKey("projects.id", ondelete="set null"), index=True)
    group_id: Mapped[str] = mapped_column(ForeignKey("hypervisor_groups.id"), index=True)
    plan_id: Mapped[str] = mapped_column(ForeignKey("volume_plans.id"), index=True)
    storage_id: Mapped[str] = mapped_column(ForeignKey("storages.id"), index=True)
    instance_id: Mapped[str | None] = mapped_column(ForeignKey("instances.id", ondelete="set null"), index=True)
    disk_name: Mapped[str] = mapped_column(String(64), unique=True)
    """The node's name of the disk: `v` and a number, which never changes, and after a restore the copy's number."""
    size: Mapped[int]
    """GiB, current size of the disk."""
    growing_to: Mapped[int | None]
    """GiB after the open resize."""
    status: Mapped[str] = mapped_column(String(16), default="pending")
    """`pending, available, attached, deleting` or `failed`.

    Only workers and operators see volumes that are `deleting`.
    """
    delete_attempts: Mapped[int] = mapped_column(default=0)
    """Failed attempts to delete it."""
    next_delete_at: Mapped[datetime | None]
    """When the next attempt to delete it is due."""
    ever_attached: Mapped[bool] = mapped_column(default=False)
    """It was attached once, so it may have data."""
    error: Mapped[str | None] = mapped_column(MessageText)
    task_id: Mapped[str | None] = mapped_column(String(36))
    """The latest task; the next one waits for it."""

    latest_task: Mapped[Task | None] = relationship(
        primaryjoin=lambda: foreign(Volume.task_id) == Task.id, viewonly=True
    )
    account: Mapped[Account] = relationship()
    group: Mapped[HypervisorGroup] = relationship()
    plan: Mapped[VolumePlan] = relationship()
    storage: Mapped[Storage] = relationship()
    instance: Mapped[Instance | None] = relationship(back_populates="volumes")
    snapshots: Mapped[list["VolumeSnapshot"]] = relationship(
        back_populates="volume", cascade="all, delete-orphan", order_by="VolumeSnapshot.id", passive_deletes=True
    )

    backups: Mapped[list["InstanceBackup"]] = relationship(
        primaryjoin="""and_(foreign(InstanceBackup.volume_id) == Volume.id,
                            InstanceBackup.account_id == Volume.account_id,
                            InstanceBackup.missing_confirmed_at.is_(None))""",
        order_by="InstanceBackup.id",
        viewonly=True,
    )
    """Those that its owner sees."""

    @property
    def pending(self) -> Task | None:
        """The open task, or None."""
        return self.latest_task if self.latest_task and self.latest_task.open else None

    @property
    def reserved_size(self) -> int:
        """GiB that are reserved for it in the storage."""
        return self.growing_to or self.size

    @property
    def deployed(self) -> bool:
        return self.status in ("available", "attached")

    @property
    def dev(self) -> str | None:
        """Its path in a guest, which does not depend on the device's letter."""
        return f"/dev/disk/by-id/virtio-{self.disk_name.partition('.')[0]}" if self.instance_id else None

    @property
    def owner_email(self) -> str:
        return self.account.email


class VolumeSnapshot(TimestampMixin, Model):
    """A full copy of a volume."""

    __tablename__ = "volume_snapshots"
    __table_args__ = (Index("uq_volume_snapshots_volume_id_name", "volume_id", "name", unique=True),)

    volume_id: Mapped[str] = mapped_column(ForeignKey("volumes.id", ondelete="cascade"))
    storage_id: Mapped[str] = mapped_column(ForeignKey("storages.id"), index=True)
    name: Mapped[str] = mapped_column(String(64))
    size: Mapped[int]
    """GiB."""
    status: Mapped[str] = mapped_column(String(16), default="creating")
    """`creating, available, restoring, deleting` or `failed`."""
    error: Mapped[str | None] = mapped_column(MessageText)
    taken_at: Mapped[datetime | None]

    volume: Mapped[Volume] = relationship(back_populates="snapshots")
    storage: Mapped[Storage] = relationship()

    @property
    def disk_name(self) -> str:
        return f"{self.id}.snapshot.qcow2"

    @property
    def bytes(self) -> int:
        return self.size * 1024**3
