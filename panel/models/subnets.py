"""Subnets of locations and the addresses in them."""

import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlalchemy import JSON, BigInteger, ForeignKey, Index, String
from sqlalchemy.orm import Mapped, mapped_column, relationship

from panel.core.db import Model, TimestampMixin
from panel.models.hypervisors import HypervisorGroup

if TYPE_CHECKING:
    from panel.models.instances import Interface


@dataclass(frozen=True)
class AddressCounts:
    """How many addresses exist, and how they are used."""

    total: int
    available: int
    """As many as `select_free` of panel.services.subnets selects."""
    reserved: int

    @property
    def used(self) -> int:
        return self.total - self.available - self.reserved


class Subnet(TimestampMixin, Model):
    """A range of addresses for the machines of one location."""

    __tablename__ = "subnets"

    name: Mapped[str] = mapped_column(String(64), unique=True)
    group_id: Mapped[str] = mapped_column(ForeignKey("hypervisor_groups.id"), index=True)
    family: Mapped[int]
    """4 or 6."""
    kind: Mapped[str] = mapped_column(String(8), default="public")
    """`public` or, IPv4 only, `private`: assigned as single addresses. `routed`, IPv6 only: assigned as networks."""
    delegated_length: Mapped[int | None]
    """Length of the prefixes that a routed subnet assigns."""
    cidr: Mapped[str] = mapped_column(String(49), unique=True)
    gateway: Mapped[str | None] = mapped_column(String(45))
    nameservers: Mapped[list] = mapped_column(JSON, default=list)
    enabled: Mapped[bool] = mapped_column(default=True)
    next_host: Mapped[int] = mapped_column(BigInteger, default=1)
    """IPv6 only: number of the first address or prefix that was never assigned.

    An IPv4 subnet has a row for each address.
    """

    group: Mapped[HypervisorGroup] = relationship()

    if TYPE_CHECKING:
        addresses_count: Mapped[int]
        available_count: Mapped[int]
        reserved_count: Mapped[int]

    @property
    def statistics(self) -> AddressCounts:
        return AddressCounts(self.addresses_count, self.available_count, self.reserved_count)

    @property
    def network(self) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
        return ipaddress.ip_network(self.cidr)

    @property
    def room(self) -> int:
        """Total number of addresses or prefixes in it."""
        if self.delegated_length is None:
            return self.network.num_addresses
        return 2 ** (self.delegated_length - self.network.prefixlen)

    def get_by_number(self, number: int) -> ipaddress.IPv4Address | ipaddress.IPv6Address | ipaddress.IPv6Network:
        """Return the address or prefix with that number, counted from 0."""
        if self.delegated_length is None:
            return self.network[number]
        first = int(self.network.network_address) + (number << (128 - self.delegated_length))
        return ipaddress.IPv6Network((first, self.delegated_length))


class Address(TimestampMixin, Model):
    """One address, or one prefix of a routed subnet. It is free while it has no interface and is not reserved."""

    __tablename__ = "addresses"
    is_audit_part = True
    __table_args__ = (
        Index(
            "ix_addresses_subnet_id_interface_id_reserved_sort_key", "subnet_id", "interface_id", "reserved", "sort_key"
        ),
        Index("ix_addresses_subnet_id_sort_key", "subnet_id", "sort_key"),
        Index("ix_addresses_ip", "ip", postgresql_ops={"ip": "varchar_pattern_ops"}),  # for the beginning of an address
    )

    subnet_id: Mapped[str] = mapped_column(ForeignKey("subnets.id", ondelete="cascade"))
    ip: Mapped[str] = mapped_column(String(45), unique=True)
    """In text form: `203.0.113.10`, for a prefix `2001:db8:0:1::/64`."""
    length: Mapped[int | None]
    """Length of a prefix; empty for a single address."""
    sort_key: Mapped[str] = mapped_column(String(32))
    """The address as hexadecimal digits, so that text order is address order."""
    interface_id: Mapped[str | None] = mapped_column(ForeignKey("interfaces.id", ondelete="set null"), index=True)
    reserved: Mapped[bool] = mapped_column(default=False)
    note: Mapped[str | None]
    rdns: Mapped[str | None] = mapped_column(String(254))
    """The name for reverse DNS that its holder set. It is reset when the address is assigned again."""

    subnet: Mapped[Subnet] = relationship()
    interface: Mapped["Interface | None"] = relationship(back_populates="addresses")

    @property
    def family(self) -> int:
        return 6 if ":" in self.ip else 4

    @property
    def is_primary(self) -> bool:
        """Whether it is one of its instance's primary addresses."""
        if self.interface is None:
            return False
        instance = self.interface.instance
        return self.ip in (instance.ipv4, instance.ipv6, instance.private_ipv4)

    @property
    def kind(self) -> str:
        """The kind of its subnet."""
        return self.subnet.kind
