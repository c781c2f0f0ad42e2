"""Traffic of instances in past months."""

from sqlalchemy import BigInteger, ForeignKey, Index, String
from sqlalchemy.orm import Mapped, mapped_column

from panel.core.db import Model, TimestampMixin


class MonthlyTraffic(TimestampMixin, Model):
    """Traffic of one instance in one calendar month (UTC), from the guest's point of view."""

    __tablename__ = "monthly_traffic"
    is_audit_part = True
    __table_args__ = (Index("ix_monthly_traffic_instance_id_month", "instance_id", "month", unique=True),)

    instance_id: Mapped[str] = mapped_column(ForeignKey("instances.id", ondelete="cascade"))
    month: Mapped[str] = mapped_column(String(7))
    """`2026-11`."""
    received: Mapped[int] = mapped_column(BigInteger, default=0)
    sent: Mapped[int] = mapped_column(BigInteger, default=0)
    """Bytes."""
