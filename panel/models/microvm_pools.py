"""Warm pools: micro VMs that were booted and saved before anybody asked for them, one pool for each node and image."""

from datetime import datetime, timedelta

from sqlalchemy import ForeignKey, Index, String, func, select
from sqlalchemy.orm import Mapped, column_property, foreign, mapped_column, relationship

from panel.core import clock
from panel.core.db import MessageText, Model, TimestampMixin
from panel.models.hypervisors import Hypervisor, Storage
from panel.models.microvms import MicrovmImage, MicrovmMachineMixin, MicrovmProfile

NEXT_BOOT_SOON_SECONDS = 30
"""A boot that is due so soon is announced without a time, which would have passed before the page is updated."""


class MicrovmPool(TimestampMixin, Model):
    """How many saved micro VMs of an image a node has ready."""

    __tablename__ = "microvm_pools"
    __table_args__ = (Index("uq_microvm_pools_profile_id_image_id", "profile_id", "image_id", unique=True),)

    profile_id: Mapped[str] = mapped_column(ForeignKey("microvm_profiles.id", ondelete="cascade"))
    image_id: Mapped[str] = mapped_column(ForeignKey("microvm_images.id", ondelete="cascade"), index=True)
    count: Mapped[int]
    """Members wanted."""
    error: Mapped[str | None] = mapped_column(MessageText)
    """Why the last boot failed; None after one that succeeded."""
    failed_boots: Mapped[int] = mapped_column(default=0)
    """Boots that failed in a row."""
    next_boot_at: Mapped[datetime | None]
    """No boot is tried before."""

    profile: Mapped[MicrovmProfile] = relationship()
    image: Mapped[MicrovmImage] = relationship()

    @property
    def is_boot_soon(self) -> bool:
        """Return whether the next boot may be tried at one of the next checks."""
        return self.next_boot_at is None or self.next_boot_at <= clock.now() + timedelta(seconds=NEXT_BOOT_SOON_SECONDS)

    @property
    def hypervisor_id(self) -> str:
        return self.profile.hypervisor_id

    @property
    def hypervisor_name(self) -> str:
        return self.profile.name

    @property
    def image_label(self) -> str:
        return self.image.label


class MicrovmPoolMember(MicrovmMachineMixin, TimestampMixin, Model):
    """A machine of a pool. A create makes it a micro VM with the same id and deletes this row.

    The row outlives its pool until nothing is left on the node.
    """

    __tablename__ = "microvm_pool_members"

    pool_id: Mapped[str | None] = mapped_column(ForeignKey("microvm_pools.id", ondelete="set null"), index=True)
    hypervisor_id: Mapped[str] = mapped_column(ForeignKey("hypervisors.id", ondelete="cascade"), index=True)
    storage_id: Mapped[str] = mapped_column(ForeignKey("storages.id", ondelete="cascade"), index=True)
    image_id: Mapped[str | None] = mapped_column(ForeignKey("microvm_images.id", ondelete="set null"), index=True)
    state: Mapped[str] = mapped_column(String(16), default="booting")
    """`booting`, `ready`, or `removing` until it is deleted from the node."""
    next_removal_at: Mapped[datetime | None]
    """No removal is tried before."""

    pool: Mapped[MicrovmPool | None] = relationship()
    hypervisor: Mapped[Hypervisor] = relationship()
    storage: Mapped[Storage] = relationship()
    image: Mapped[MicrovmImage | None] = relationship()
    profile: Mapped[MicrovmProfile | None] = relationship(
        primaryjoin=lambda: foreign(MicrovmPoolMember.hypervisor_id) == MicrovmProfile.hypervisor_id, viewonly=True
    )

    allow_internet_access = False
    """A member sends nothing: its owner's rules are set when it is taken."""
    allow_out: tuple[str, ...] = ()
    deny_out: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.node_name


def count_members(state: str) -> Mapped[int]:
    """Return a column with the number of a pool's members in this state."""
    query = select(func.count()).where(MicrovmPoolMember.pool_id == MicrovmPool.id, MicrovmPoolMember.state == state)
    return column_property(query.correlate(MicrovmPool).scalar_subquery(), deferred=True, group="members")


MicrovmPool.ready_count = count_members("ready")
MicrovmPool.booting_count = count_members("booting")
