"""Metrics of machines and hypervisors over time, and what was allocated of locations each day."""

from datetime import date

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

HOST_METRIC_NAMES = ("host_cpu_percent", "host_memory_used")
"""The same units for a whole hypervisor: with the host itself. Null when the node did not report them."""

SLOTS_BY_STEP = {15: 240, 300: 288, 3600: 168}
"""Number of rows of a machine by the length of their step in seconds: for an hour, a day and a week."""


STORAGE_SLOTS_BY_STEP = {900: 96, 3600: 168, 86400: 366}
"""The same of a storage: for a day, a week and a year."""

SUBNET_SLOTS_BY_STEP = {300: 288, 3600: 168}
"""The same of a subnet on a hypervisor: for a day and a week."""


def build_metric_column() -> MappedColumn[float]:
    return mapped_column(REAL, default=0.0, sort_order=1)


def build_host_metric_column() -> MappedColumn[float | None]:
    return mapped_column(REAL, sort_order=2)


class MetricColumns:
    """Average and maximum of each metric over a step of `step` seconds that began at `at`."""

    at: Mapped[int] = mapped_column(BigInteger, sort_order=1)
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


class InstanceMetric(MetricColumns, Model):
    """What a machine used.

    Its rows of a step are a ring buffer: `slot` is the number of the step modulo the buffer's length, so a new
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


class HypervisorMetric(MetricColumns, Model):
    """What a hypervisor's machines used together, in the same ring buffers, and what the whole host used.

    Percent are of the host's cores.
    """

    __tablename__ = "hypervisor_metrics"
    is_audit_part = True
    __table_args__ = {"sqlite_with_rowid": False, "postgresql_with": {"fillfactor": 70}}

    hypervisor_id: Mapped[str] = mapped_column(
        String(36), ForeignKey("hypervisors.id", ondelete="cascade"), primary_key=True
    )
    step: Mapped[int] = mapped_column(SmallInteger, primary_key=True, autoincrement=False)
    slot: Mapped[int] = mapped_column(SmallInteger, primary_key=True, autoincrement=False)
    host_cpu_percent: Mapped[float | None] = build_host_metric_column()
    host_cpu_percent_max: Mapped[float | None] = build_host_metric_column()
    host_memory_used: Mapped[float | None] = build_host_metric_column()
    host_memory_used_max: Mapped[float | None] = build_host_metric_column()


class StorageMetric(Model):
    """How full a storage was, in ring buffers like those of machines. Each row has the last values of its step."""

    __tablename__ = "storage_metrics"
    is_audit_part = True
    __table_args__ = {"sqlite_with_rowid": False, "postgresql_with": {"fillfactor": 70}}

    storage_id: Mapped[str] = mapped_column(String(36), ForeignKey("storages.id", ondelete="cascade"), primary_key=True)
    step: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    slot: Mapped[int] = mapped_column(SmallInteger, primary_key=True, autoincrement=False)
    at: Mapped[int] = mapped_column(BigInteger)
    """Seconds since 1970."""
    capacity: Mapped[float] = mapped_column(REAL)
    used_space: Mapped[float] = mapped_column(REAL)
    allocated: Mapped[float] = mapped_column(REAL)
    """MiB; `allocated` to disks, whether they are written or not."""


class SubnetMetric(Model):
    """What guests of one hypervisor received and sent through interfaces with an address in the subnet, in ring buffers
    like those of machines: bytes in the measured seconds of the step."""

    __tablename__ = "subnet_metrics"
    is_audit_part = True
    __table_args__ = {"sqlite_with_rowid": False, "postgresql_with": {"fillfactor": 70}}

    subnet_id: Mapped[str] = mapped_column(String(36), ForeignKey("subnets.id", ondelete="cascade"), primary_key=True)
    hypervisor_id: Mapped[str] = mapped_column(
        String(36), ForeignKey("hypervisors.id", ondelete="cascade"), primary_key=True, index=True
    )
    step: Mapped[int] = mapped_column(SmallInteger, primary_key=True, autoincrement=False)
    slot: Mapped[int] = mapped_column(SmallInteger, primary_key=True, autoincrement=False)
    at: Mapped[int] = mapped_column(BigInteger)
    """Seconds since 1970."""
    received: Mapped[int] = mapped_column(BigInteger)
    sent: Mapped[int] = mapped_column(BigInteger)
    seconds: Mapped[float]


class LocationAllocation(Model):
    """What was allocated of a location at the end of a day, for its forecast. The row of the current day is updated."""

    __tablename__ = "location_allocations"
    is_audit_part = True
    __table_args__ = {"sqlite_with_rowid": False}

    group_id: Mapped[str] = mapped_column(
        String(36), ForeignKey("hypervisor_groups.id", ondelete="cascade"), primary_key=True
    )
    day: Mapped[date] = mapped_column(primary_key=True)
    cpu_cores: Mapped[int] = mapped_column(default=0)
    ram: Mapped[int] = mapped_column(BigInteger, default=0)
    """MiB."""
    storage: Mapped[int] = mapped_column(BigInteger, default=0)
    """GiB."""
    addresses: Mapped[int] = mapped_column(default=0)
    """Public IPv4 addresses."""
