"""Live-snapshot sessions: a running machine writes to overlays beside its disks until commit or discard."""

from datetime import datetime

from sqlalchemy import JSON, ForeignKey, Index, String
from sqlalchemy.orm import Mapped, mapped_column, relationship

from panel.core.db import MessageText, Model, TimestampMixin
from panel.models.instances import Instance

ACTIVE_STATUSES = ("active", "committing", "discarding")
"""In these statuses the data written since the start are in overlays."""


class Forge(TimestampMixin, Model):
    """One live-snapshot session, over some disks of an instance."""

    __tablename__ = "forges"
    __table_args__ = (Index("ix_forges_instance_id_id", "instance_id", "id"),)

    instance_id: Mapped[str] = mapped_column(ForeignKey("instances.id", ondelete="cascade"))
    status: Mapped[str] = mapped_column(String(16), default="creating")
    """`creating, active, committing, committed, discarding, discarded` or `failed`."""
    disks: Mapped[list] = mapped_column(JSON)
    """Id, name and size (GiB) of each disk at that time, because the session's row outlives disks."""
    error: Mapped[str | None] = mapped_column(MessageText)
    merging: Mapped[bool] = mapped_column(default=False)
    """A commit has begun, so the disks may have changed and a discard is refused."""
    ended_at: Mapped[datetime | None]

    instance: Mapped[Instance] = relationship(back_populates="forges")

    @property
    def active(self) -> bool:
        return self.status in ACTIVE_STATUSES

    @property
    def disk_ids(self) -> list[str]:
        return [disk["id"] for disk in self.disks]
