"""IP sets: named lists of networks that security rules refer to."""

from typing import TYPE_CHECKING

from sqlalchemy import ForeignKey, Index, String, func, select
from sqlalchemy.orm import Mapped, column_property, mapped_column, relationship

from panel.core.db import Model, TimestampMixin


class IpSet(TimestampMixin, Model):
    """A named set of networks of one family.

    Without an account it is the platform's: customers use it, operators change it.
    """

    __tablename__ = "ip_sets"
    __table_args__ = (
        Index("ix_ip_sets_account_id_name", "account_id", "name"),
        Index("ix_ip_sets_name_id", "name", "id"),
    )

    account_id: Mapped[str | None] = mapped_column(ForeignKey("accounts.id", ondelete="cascade"))
    name: Mapped[str]
    description: Mapped[str | None]
    ip_version: Mapped[str] = mapped_column(String(4))
    """`ipv4` or `ipv6`."""

    entries: Mapped[list["IpSetEntry"]] = relationship(
        back_populates="ip_set", cascade="all, delete-orphan", order_by="IpSetEntry.id", passive_deletes=True
    )

    if TYPE_CHECKING:
        entries_count: Mapped[int]
        rules_count: Mapped[int]

    @property
    def is_global(self) -> bool:
        return self.account_id is None


class IpSetEntry(TimestampMixin, Model):
    """One network of a set."""

    __tablename__ = "ip_set_entries"
    __table_args__ = (Index("ix_ip_set_entries_ip_set_id_cidr", "ip_set_id", "cidr", unique=True),)

    ip_set_id: Mapped[str] = mapped_column(ForeignKey("ip_sets.id", ondelete="cascade"))
    cidr: Mapped[str] = mapped_column(String(49))
    description: Mapped[str | None]

    ip_set: Mapped[IpSet] = relationship(back_populates="entries")


IpSet.entries_count = column_property(
    select(func.count())
    .select_from(IpSetEntry)
    .where(IpSetEntry.ip_set_id == IpSet.id)
    .correlate(IpSet)
    .scalar_subquery(),
    deferred=True,
    group="counts",
)
"""How many networks it has. Lists load the counts with `undefer_group`."""
