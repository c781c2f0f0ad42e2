"""When hypervisors did not answer."""

from datetime import datetime

from sqlalchemy import ForeignKey, Index, String
from sqlalchemy.orm import Mapped, mapped_column

from panel.core import clock
from panel.core.db import MessageText, Model, generate_id


class HypervisorOutage(Model):
    """A time in which a hypervisor did not answer the workers. It has no end while it lasts."""

    __tablename__ = "hypervisor_outages"
    is_audit_part = True
    __table_args__ = (Index("ix_hypervisor_outages_hypervisor_id_id", "hypervisor_id", "id"),)

    id: Mapped[str] = mapped_column(String(36), primary_key=True, default=generate_id)
    hypervisor_id: Mapped[str] = mapped_column(ForeignKey("hypervisors.id", ondelete="cascade"))
    began_at: Mapped[datetime] = mapped_column(default=clock.now)
    ended_at: Mapped[datetime | None] = mapped_column(index=True)
    detail: Mapped[str] = mapped_column(MessageText)
    """The first error."""
