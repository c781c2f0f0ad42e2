"""Builds of micro VM images: from what and where an image is built, and what the commands wrote."""

from datetime import datetime

from sqlalchemy import JSON, ForeignKey, Index, String, Text, text
from sqlalchemy.orm import Mapped, foreign, mapped_column, relationship

from panel.core import clock
from panel.core.db import MessageText, Model, TimestampMixin
from panel.models.hypervisors import Hypervisor, HypervisorGroup, Storage
from panel.models.microvms import MicrovmImage, MicrovmProfile

IS_RUNNING = text("ended_at is null")
"""The condition of the partial indexes of builds that have not ended."""


class MicrovmImageBuild(TimestampMixin, Model):
    """The latest build of an image. It has the id of the image, and so has the machine that executes the commands."""

    __tablename__ = "microvm_image_builds"
    is_audit_part = True
    __table_args__ = tuple(
        Index(name, column, sqlite_where=IS_RUNNING, postgresql_where=IS_RUNNING)
        for name, column in {
            "ix_microvm_image_builds_running_hypervisor_id": "hypervisor_id",
            "ix_microvm_image_builds_running_storage_id": "storage_id",
        }.items()
    )

    id: Mapped[str] = mapped_column(
        ForeignKey("microvm_images.id", ondelete="cascade"), primary_key=True, sort_order=-10
    )
    source_id: Mapped[str | None] = mapped_column(ForeignKey("microvm_images.id", ondelete="set null"), index=True)
    group_id: Mapped[str | None] = mapped_column(ForeignKey("hypervisor_groups.id", ondelete="set null"))
    hypervisor_id: Mapped[str | None] = mapped_column(ForeignKey("hypervisors.id", ondelete="set null"))
    storage_id: Mapped[str | None] = mapped_column(ForeignKey("storages.id", ondelete="set null"))
    commands: Mapped[list[str]] = mapped_column(JSON)
    """Executed by root, one after the other."""
    boot: Mapped[dict[str, str]] = mapped_column(JSON, default=dict)
    """`key` of the source's files on the node, and kernel `options`."""
    cpu_cores: Mapped[int]
    memory_mb: Mapped[int]
    disk_gb: Mapped[int]
    mac: Mapped[str] = mapped_column(String(17))
    address: Mapped[str | None] = mapped_column(String(15))
    """As of a micro VM."""
    log: Mapped[str] = mapped_column(Text, default="")
    """The end of what the commands wrote."""
    command_number: Mapped[int | None]
    """The command, from 1, that is being executed or that failed."""
    exit_code: Mapped[int | None]
    """Of the command that failed."""
    error: Mapped[str | None] = mapped_column(MessageText)
    started_at: Mapped[datetime] = mapped_column(default=clock.now)
    ended_at: Mapped[datetime | None]
    """Until then the build takes capacity of its node."""
    task_id: Mapped[str | None] = mapped_column(String(36))

    image: Mapped[MicrovmImage] = relationship(foreign_keys=[id], back_populates="build")
    source: Mapped[MicrovmImage | None] = relationship(foreign_keys=[source_id])
    group: Mapped[HypervisorGroup | None] = relationship()
    hypervisor: Mapped[Hypervisor | None] = relationship()
    storage: Mapped[Storage | None] = relationship()
    profile: Mapped[MicrovmProfile | None] = relationship(
        primaryjoin=lambda: foreign(MicrovmImageBuild.hypervisor_id) == MicrovmProfile.hypervisor_id, viewonly=True
    )

    allow_internet_access = True
    """As of a micro VM: the node's profile must allow it too."""
    allow_out: tuple[str, ...] = ()
    deny_out: tuple[str, ...] = ()

    @property
    def node_name(self) -> str:
        """The machine's name on the node."""
        return f"m-build-{self.id}"

    @property
    def disk_name(self) -> str:
        return f"{self.node_name}.qcow2"

    @property
    def source_name(self) -> str | None:
        return self.source.name if self.source else None
