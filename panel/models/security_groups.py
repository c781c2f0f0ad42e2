"""Security groups: firewall rules, and which instances they apply to."""

from typing import TYPE_CHECKING

from sqlalchemy import ForeignKey, Index, String, func, select
from sqlalchemy.orm import Mapped, column_property, mapped_column, query_expression, relationship

from panel.core.db import Model, TimestampMixin
from panel.models.instances import Instance
from panel.models.ip_sets import IpSet


class SecurityGroup(TimestampMixin, Model):
    """Rules for the traffic of the instances in it.

    Without an account it is the platform's: customers add their instances, operators change it.
    """

    __tablename__ = "security_groups"
    live_permissions = ("security_groups.view", "admin:security_groups:read")
    __table_args__ = (
        Index("ix_security_groups_account_id_name", "account_id", "name"),
        Index("ix_security_groups_name_id", "name", "id"),
    )

    account_id: Mapped[str | None] = mapped_column(ForeignKey("accounts.id", ondelete="cascade"))
    name: Mapped[str]
    description: Mapped[str | None]

    rules: Mapped[list["SecurityRule"]] = relationship(
        back_populates="group",
        cascade="all, delete-orphan",
        order_by="SecurityRule.id",
        passive_deletes=True,
        foreign_keys="SecurityRule.group_id",
    )
    members: Mapped[list["SecurityGroupMember"]] = relationship(
        back_populates="group", cascade="all, delete-orphan", passive_deletes=True
    )

    attached_instances: Mapped[list[Instance]] = relationship(
        secondary="security_group_members", order_by=(Instance.display_name, Instance.id), viewonly=True
    )
    instances_count: Mapped[int] = query_expression()
    """How many of its instances the account may see. Loaded by `with_counts` of panel.services.security_groups."""

    if TYPE_CHECKING:
        rules_count: Mapped[int]

    @property
    def is_global(self) -> bool:
        return self.account_id is None


class SecurityRule(TimestampMixin, Model):
    """Connections that may be opened; answers always pass.

    At most one of `cidr`, `remote_group_id` and `ip_set_id` limits the peers; without any of them every peer is
    allowed.
    """

    __tablename__ = "security_rules"

    group_id: Mapped[str] = mapped_column(ForeignKey("security_groups.id", ondelete="cascade"), index=True)
    direction: Mapped[str] = mapped_column(String(8))
    """`ingress` or `egress`."""
    protocol: Mapped[str] = mapped_column(String(8))
    """`tcp`, `udp`, `icmp`, `icmpv6` or `all`."""
    ip_version: Mapped[str] = mapped_column(String(4))
    port_range_min: Mapped[int | None]
    port_range_max: Mapped[int | None]
    cidr: Mapped[str | None] = mapped_column(String(49))
    """As it was sent."""
    remote_group_id: Mapped[str | None] = mapped_column(
        ForeignKey("security_groups.id", ondelete="cascade"), index=True
    )
    ip_set_id: Mapped[str | None] = mapped_column(ForeignKey("ip_sets.id"), index=True)
    description: Mapped[str | None]

    group: Mapped[SecurityGroup] = relationship(back_populates="rules", foreign_keys=group_id)
    remote_group: Mapped[SecurityGroup | None] = relationship(foreign_keys=remote_group_id)
    ip_set: Mapped[IpSet | None] = relationship()

    @property
    def name(self) -> str:
        """The rule's label in the audit log."""
        return f"{self.direction} {self.protocol}"


class SecurityGroupMember(TimestampMixin, Model):
    """The membership of an instance in a group."""

    __tablename__ = "security_group_members"
    is_audit_part = True
    __table_args__ = (Index("ix_security_group_members_group_id_instance_id", "group_id", "instance_id", unique=True),)

    group_id: Mapped[str] = mapped_column(ForeignKey("security_groups.id", ondelete="cascade"))
    instance_id: Mapped[str] = mapped_column(ForeignKey("instances.id", ondelete="cascade"), index=True)

    group: Mapped[SecurityGroup] = relationship(back_populates="members")
    instance: Mapped[Instance] = relationship()


SecurityGroup.rules_count = column_property(
    select(func.count())
    .select_from(SecurityRule)
    .where(SecurityRule.group_id == SecurityGroup.id)
    .correlate(SecurityGroup)
    .scalar_subquery(),
    deferred=True,
)
"""How many rules it has."""

IpSet.rules_count = column_property(
    select(func.count())
    .select_from(SecurityRule)
    .where(SecurityRule.ip_set_id == IpSet.id)
    .correlate(IpSet)
    .scalar_subquery(),
    deferred=True,
    group="counts",
)
"""How many rules refer to the set."""
