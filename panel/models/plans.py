"""Plans and their groups."""

from decimal import Decimal

from sqlalchemy import ForeignKey, Index, Numeric, String
from sqlalchemy.orm import Mapped, mapped_column, relationship

from panel.core.db import Model, TimestampMixin
from panel.models.hypervisors import HypervisorGroup, group_plan_groups


class PlanGroup(TimestampMixin, Model):
    """Plans of one kind, offered in some locations."""

    __tablename__ = "plan_groups"

    name: Mapped[str] = mapped_column(String(64), unique=True)
    display_name: Mapped[str]
    position: Mapped[int] = mapped_column(default=0)
    enabled: Mapped[bool] = mapped_column(default=True)

    plans: Mapped[list["Plan"]] = relationship(back_populates="group", order_by="Plan.position")
    groups: Mapped[list[HypervisorGroup]] = relationship(secondary=group_plan_groups, back_populates="plan_groups")


class Plan(TimestampMixin, Model):
    """A size of machine and its price."""

    __tablename__ = "plans"
    __table_args__ = (Index("ix_plans_plan_group_id_name", "plan_group_id", "name", unique=True),)

    plan_group_id: Mapped[str] = mapped_column(ForeignKey("plan_groups.id"))
    name: Mapped[str] = mapped_column(String(64))
    position: Mapped[int] = mapped_column(default=0)
    enabled: Mapped[bool] = mapped_column(default=True)
    cpu_cores: Mapped[int]
    ram: Mapped[int]
    """MiB."""
    storage: Mapped[int]
    """GiB of the first disk."""
    bandwidth: Mapped[int] = mapped_column(default=0)
    """GB of traffic a month; 0 is unlimited."""
    overage: Mapped[str] = mapped_column(String(8), default="none")
    """What happens when the traffic is used up: `none`, `network` (its interfaces are disconnected until the next
    month) or `instance` (it is suspended until then).
    """
    port_speed: Mapped[int] = mapped_column(default=0)
    """Mbit/s each way; 0 is unlimited."""
    ipv4: Mapped[int] = mapped_column(default=1)
    ipv6: Mapped[int] = mapped_column(default=1)
    """Number of IPv6 addresses of the machine."""
    ipv6_prefixes: Mapped[int] = mapped_column(default=0)
    """Number of IPv6 networks that are routed to the machine."""
    private_ipv4: Mapped[int] = mapped_column(default=0)
    """Number of addresses that are reachable only within its location."""
    price: Mapped[Decimal] = mapped_column(Numeric(12, 4), default=Decimal(0))
    """A month, in the installation's currency."""

    group: Mapped[PlanGroup] = relationship(back_populates="plans")
