"""Which instance and customer had an address, and when."""

from datetime import datetime

from sqlalchemy import ForeignKey, Index, String
from sqlalchemy.orm import Mapped, mapped_column, relationship

from panel.core import clock
from panel.core.db import Model, generate_id
from panel.models.accounts import Account


class AddressLogEntry(Model):
    """The time in which an instance had an address. It stays when the instance is destroyed."""

    __tablename__ = "address_log"
    is_audit_part = True
    __table_args__ = (
        Index("ix_address_log_ip_id", "ip", "id"),
        Index("ix_address_log_instance_id", "instance_id", "id"),
    )

    id: Mapped[str] = mapped_column(String(36), primary_key=True, default=generate_id)
    ip: Mapped[str] = mapped_column(String(49))
    """An address, or a prefix as network."""
    instance_id: Mapped[str] = mapped_column(String(36))
    instance_name: Mapped[str]
    account_id: Mapped[str | None] = mapped_column(ForeignKey("accounts.id", ondelete="set null"), index=True)
    email: Mapped[str]
    """That of the customer at the time of the assignment."""
    assigned_at: Mapped[datetime] = mapped_column(default=clock.now)
    released_at: Mapped[datetime | None] = mapped_column(index=True)

    account: Mapped[Account | None] = relationship()
