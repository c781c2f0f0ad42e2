"""Offers and prices of a hypervisor group (HVG-03, HVG-04)."""

from decimal import Decimal

from sqlalchemy import String
from sqlalchemy.orm import Mapped, mapped_column

from panel.core.db import Money

GROUP_SERVICES = (
    "public_networking",
    "vpc",
    "natgw",
    "lb",
    "db",
    "microvm",
    "image",
    "autoscaling",
    "static_ip",
    "vpngw",
)
"""Kinds of resources that a group can be closed to; each has a switch `<kind>_enabled`."""


class GroupSettings:
    """The columns of a group apart from its name. A switch closes the group only to new resources of that kind."""

    enabled: Mapped[bool] = mapped_column(default=True)
    """Off closes the group to new resources of every kind; existing ones go on."""
    public_networking_enabled: Mapped[bool] = mapped_column(default=True)
    """Off: new instances get no public interface and no address."""
    vpc_enabled: Mapped[bool] = mapped_column(default=True)
    natgw_enabled: Mapped[bool] = mapped_column(default=True)
    lb_enabled: Mapped[bool] = mapped_column(default=True)
    db_enabled: Mapped[bool] = mapped_column(default=True)
    microvm_enabled: Mapped[bool] = mapped_column(default=True)
    image_enabled: Mapped[bool] = mapped_column(default=True)
    """Off: no images can be captured from instances."""
    autoscaling_enabled: Mapped[bool] = mapped_column(default=True)
    static_ip_enabled: Mapped[bool] = mapped_column(default=True)
    vpngw_enabled: Mapped[bool] = mapped_column(default=True)
    managed_backups_billed: Mapped[bool] = mapped_column(default=False)
    vpc_network_inbound_average: Mapped[int | None]
    vpc_network_outbound_average: Mapped[int | None]
    """KiB/s of an interface in a private network; empty is unlimited."""
    natgw_credit_value: Mapped[Decimal] = mapped_column(Money, default=Decimal(0))
    """Price of a NAT gateway a month."""
    natgw_bandwidth_rate: Mapped[int] = mapped_column(default=0)
    """Mbit/s; 0 is unlimited."""
    natgw_bandwidth_accounting: Mapped[str] = mapped_column(String(16), default="total")
    natgw_bandwidth_overage: Mapped[Decimal] = mapped_column(Money, default=Decimal(0))
    """Price of a GB above the allowance."""
    ipv4_credit_value: Mapped[Decimal] = mapped_column(Money, default=Decimal(0))
    """Price of an additional IPv4 address a month."""
    backup_mode: Mapped[str] = mapped_column(String(16), default="full")
    default_backup_policy_id: Mapped[str | None] = mapped_column(String(36))

    def can_create(self, kind: str) -> bool:
        """Return whether a new resource of that kind, one of `GROUP_SERVICES`, may be created in the group."""
        return self.enabled and getattr(self, f"{kind}_enabled")
