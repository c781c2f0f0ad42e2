"""What guest agents report."""

from datetime import datetime

from sqlalchemy import JSON, ForeignKey
from sqlalchemy.orm import Mapped, mapped_column

from panel.core.db import Model


class GuestInfo(Model):
    """What the guest agent of an instance reported last."""

    __tablename__ = "guest_info"

    instance_id: Mapped[str] = mapped_column(ForeignKey("instances.id", ondelete="cascade"), primary_key=True)
    at: Mapped[datetime]
    addresses: Mapped[list] = mapped_column(JSON, default=list)
    """`{ip, family, mac}`."""
    filesystems: Mapped[list] = mapped_column(JSON, default=list)
    """`{mountpoint, kind, size, used}`, in bytes."""
