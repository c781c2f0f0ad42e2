"""What guests of micro VMs report about themselves: entries of their logs, and their load."""

from datetime import datetime

from sqlalchemy import JSON, REAL, BigInteger, ForeignKey, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from panel.core.db import Model


class MicrovmLogEntry(Model):
    """An entry of a micro VM's log. `number` counts its entries; only the latest are stored."""

    __tablename__ = "microvm_log_entries"
    is_audit_part = True

    microvm_id: Mapped[str] = mapped_column(String(36), ForeignKey("microvms.id", ondelete="cascade"), primary_key=True)
    number: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    at: Mapped[datetime]
    """When it happened, by the clock of the router."""
    level: Mapped[str] = mapped_column(String(8))
    """`debug, info, warn` or `error`."""
    logger: Mapped[str] = mapped_column(String(32))
    """The part of the guest that logged it, such as `kernel` or `process`."""
    message: Mapped[str] = mapped_column(Text)
    fields: Mapped[dict[str, str]] = mapped_column(JSON)


class MicrovmGuestSample(Model):
    """The load of a micro VM at one time, measured inside it. Samples of the last hour are stored."""

    __tablename__ = "microvm_guest_samples"
    is_audit_part = True

    microvm_id: Mapped[str] = mapped_column(String(36), ForeignKey("microvms.id", ondelete="cascade"), primary_key=True)
    at: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    """Seconds since 1970."""
    cpu_percent: Mapped[float] = mapped_column(REAL)
    """Of all its cores."""
    memory_used: Mapped[int] = mapped_column(BigInteger)
    memory_total: Mapped[int] = mapped_column(BigInteger)
    memory_cache: Mapped[int] = mapped_column(BigInteger)
    disk_used: Mapped[int] = mapped_column(BigInteger)
    disk_total: Mapped[int] = mapped_column(BigInteger)
    """Bytes."""
