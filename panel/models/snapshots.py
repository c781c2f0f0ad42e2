"""Snapshots of whole instances: their disks and, if requested, their memory."""

from datetime import datetime

from sqlalchemy import JSON, ForeignKey, Index, String, Text
from sqlalchemy.orm import Mapped, mapped_column, relationship

from panel.core import clock
from panel.core.db import MessageText, Model, TimestampMixin
from panel.models.instances import Instance


class Snapshot(TimestampMixin, Model):
    """One snapshot. On the node it is called by its id."""

    __tablename__ = "snapshots"
    __table_args__ = (
        Index("ix_snapshots_instance_id_id", "instance_id", "id"),
        Index("uq_snapshots_instance_id_name", "instance_id", "name", unique=True),
    )

    instance_id: Mapped[str] = mapped_column(ForeignKey("instances.id", ondelete="cascade"))
    name: Mapped[str] = mapped_column(String(64))
    description: Mapped[str] = mapped_column(Text, default="")
    vmstate: Mapped[bool] = mapped_column(default=False)
    """Includes the memory: after a rollback the guest continues at that point."""
    status: Mapped[str] = mapped_column(String(16), default="creating")
    """`creating`, `available`, `restoring`, `deleting` or `failed`."""
    parent: Mapped[str | None] = mapped_column(String(64))
    """The name of the snapshot that the machine was at."""
    cpu_cores: Mapped[int]
    ram: Mapped[int]
    disk_ids: Mapped[list] = mapped_column(JSON)
    """Processors, memory and disks of the machine at that time."""
    used_at: Mapped[datetime] = mapped_column(default=clock.now)
    """When it was taken or last rolled back to."""
    error: Mapped[str | None] = mapped_column(MessageText)

    instance: Mapped[Instance] = relationship(back_populates="snapshots")

    @property
    def snaptime(self) -> int:
        return int(self.created_at.timestamp())
