"""Metrics of machines over time."""

from sqlalchemy import REAL, BigInteger, ForeignKey, SmallInteger, String
from sqlalchemy.orm import Mapped, MappedColumn, mapped_column

from panel.core.db import Model

METRIC_NAMES = (
    "cpu_percent",
    "memory_used",
    "network_receive_mbps",
    "network_transmit_mbps",
    "disk_read_bytes",
    "disk_write_bytes",
    "disk_read_iops",
    "disk_write_iops",
)
"""Units: percent of all processors, MiB, Mbit/s as the guest sees them, bytes and operations a second."""

SLOTS_BY_STEP = {15: 240, 300: 288, 3600: 168}
"""Number of rows of a machine by the length of their step in seconds: for an hour, a day and a week."""


def build_metric_column() -> MappedColumn[float]:
    return mapped_column(REAL, default=0.0)


class InstanceMetric(Model):
    """Average and maximum of each metric over a step of `step` seconds that began at `at`.

    A machine's rows of a step are a ring buffer: `slot` is the number of the step modulo the buffer's length, so a new
    row replaces the oldest. The table therefore never exceeds a few hundred rows for each machine and needs no purge.
    Rows of an earlier round are recognized by `at`.
    """

    __tablename__ = "instance_metrics"
    __table_args__ = {"sqlite_with_rowid": False, "postgresql_with": {"fillfactor": 70}}

    instance_id: Mapped[str] = mapped_column(
        String(36), ForeignKey("instances.id", ondelete="cascade"), primary_key=True
    )
    step: Mapped[int] = mapped_column(SmallInteger, primary_key=True, autoincrement=False)
    slot: Mapped[int] = mapped_column(SmallInteger, primary_key=True, autoincrement=False)
    at: Mapped[int] = mapped_column(BigInteger)
    """Seconds since 1970."""
    cpu_percent: Mapped[float] = build_metric_column()
    cpu_percent_max: Mapped[float] = build_metric_column()
    memory_used: Mapped[float] = build_metric_column()
    memory_used_max: Mapped[float] = build_metric_column()
    network_receive_mbps: Mapped[float] = build_metric_column()
    network_receive_mbps_max: Mapped[float] = build_metric_column()
    network_transmit_mbps: Mapped[float] = build_metric_column()
    network_transmit_mbps_max: Mapped[float] = build_metric_column()
    disk_read_bytes: Mapped[float] = build_metric_column()
    disk_read_bytes_max: Mapped[float] = build_metric_column()
    disk_write_bytes: Mapped[float] = build_metric_column()
    disk_write_bytes_max: Mapped[float] = build_metric_column()
    disk_read_iops: Mapped[float] = build_metric_column()
    disk_read_iops_max: Mapped[float] = build_metric_column()
    disk_write_iops: Mapped[float] = build_metric_column()
    disk_write_iops_max: Mapped[float] = build_metric_column()
