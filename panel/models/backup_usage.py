"""How much space the managed backups of an account use: those that policies and jobs of the platform made."""

from datetime import datetime
from decimal import Decimal

from sqlalchemy import BigInteger, Index, String
from sqlalchemy.orm import Mapped, mapped_column

from panel.core.db import Model, Money, TimestampMixin


class ManagedBackupUsage(TimestampMixin, Model):
    """The unique bytes of an account's managed backups of one location in one repository.

    Ids are plain text, because metering must end when repository or location are gone.
    """

    __tablename__ = "managed_backup_usages"
    is_audit_part = True
    __table_args__ = (
        Index("uq_managed_backup_usages_repository_id_group_id", "repository_id", "group_id", unique=True),
    )

    account_id: Mapped[str] = mapped_column(String(36))
    repository_id: Mapped[str] = mapped_column(String(36))
    group_id: Mapped[str] = mapped_column(String(36))
    """The location in which the instances were when the backups were made."""
    bytes: Mapped[int] = mapped_column(BigInteger, default=0)
    """As the last garbage collection counted them, and what was added since."""
    metered_bytes: Mapped[int | None] = mapped_column(BigInteger)
    """The bytes that are charged now; None while they are not metered."""
    metered_price: Mapped[Decimal | None] = mapped_column(Money)
    """The price of a GiB a month that is charged now."""
    metered_at: Mapped[datetime | None]
    """When metering last started, changed or ended."""
