"""Migrations of machines between hypervisors."""

from datetime import datetime

from sqlalchemy import JSON, ForeignKey, Index, String
from sqlalchemy.orm import Mapped, foreign, mapped_column, relationship, remote

from panel.core.db import MessageText, Model, TimestampMixin
from panel.models.hypervisors import Hypervisor
from panel.models.instances import Instance
from panel.models.tasks import Task


class Migration(TimestampMixin, Model):
    """One migration of one machine, which its task carries out. The machine keeps its addresses."""

    __tablename__ = "migrations"
    live_permissions = (None, "admin:instances:read")
    __table_args__ = (
        Index("ix_migrations_instance_id_id", "instance_id", "id"),
        Index("ix_migrations_target_id_status", "target_id", "status"),
        Index("ix_migrations_parent_task_id", "parent_task_id"),
    )

    instance_id: Mapped[str] = mapped_column(String(36))
    """Plain text, like the name, because the row outlives the instance."""
    instance_name: Mapped[str]
    source_id: Mapped[str | None] = mapped_column(ForeignKey("hypervisors.id", ondelete="set null"), index=True)
    target_id: Mapped[str | None] = mapped_column(ForeignKey("hypervisors.id", ondelete="set null"))
    storage_id: Mapped[str | None] = mapped_column(ForeignKey("storages.id", ondelete="set null"), index=True)
    """The target storage of its disks."""
    kind: Mapped[str] = mapped_column(String(8))
    """`live` when the guest runs meanwhile, else `cold`."""
    status: Mapped[str] = mapped_column(String(16), default="active")
    """`active`, `completed`, `failed` or `cancelled`."""
    error: Mapped[str | None] = mapped_column(MessageText)
    task_id: Mapped[str | None] = mapped_column(String(36))
    parent_task_id: Mapped[str | None] = mapped_column(String(36))
    """The task of the evacuation that it belongs to."""
    undeleted_source_disks: Mapped[list] = mapped_column(JSON, default=list)
    """Disks that are still on the source after the migration, as pool and name."""
    finished_at: Mapped[datetime | None]

    source: Mapped[Hypervisor | None] = relationship(foreign_keys=source_id)
    target: Mapped[Hypervisor | None] = relationship(foreign_keys=target_id)
    task: Mapped[Task | None] = relationship(
        primaryjoin=lambda: foreign(Migration.task_id) == remote(Task.id), viewonly=True, uselist=False
    )
    instance: Mapped[Instance | None] = relationship(
        primaryjoin=lambda: foreign(Migration.instance_id) == remote(Instance.id), viewonly=True, uselist=False
    )

    @property
    def progress(self) -> int:
        return 100 if self.status == "completed" else self.task.progress if self.task else 0

    @property
    def stage(self) -> str:
        return self.task.stage if self.task else ""

    @property
    def bytes_done(self) -> int | None:
        return self.task.bytes_done if self.task else None

    @property
    def bytes_total(self) -> int | None:
        return self.task.bytes_total if self.task else None

    @property
    def source_name(self) -> str:
        return self.source.name if self.source else ""

    @property
    def target_name(self) -> str:
        return self.target.name if self.target else ""

    @property
    def cleanup_pending(self) -> bool:
        return bool(self.undeleted_source_disks)
