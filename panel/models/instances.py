"""Virtual machines, their disks and network interfaces."""

from datetime import datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING

from sqlalchemy import (
    JSON,
    BigInteger,
    ColumnElement,
    ForeignKey,
    Index,
    String,
    Text,
    case,
    exists,
    func,
    or_,
    select,
    text,
)
from sqlalchemy.ext.hybrid import hybrid_property
from sqlalchemy.orm import Mapped, column_property, foreign, mapped_column, relationship

from panel.core import clock
from panel.core.db import EncryptedText, MessageText, Model, TimestampMixin
from panel.models.accounts import Account
from panel.models.hypervisors import Hypervisor, HypervisorGroup, Storage
from panel.models.images import Image
from panel.models.isos import Iso
from panel.models.plans import Plan
from panel.models.subnets import Address
from panel.models.tasks import REBUILD_TASK_KINDS, TRANSITION_TASK_KINDS, Task, is_open

if TYPE_CHECKING:
    from panel.models.forges import Forge
    from panel.models.resource_packs import ResourcePack
    from panel.models.snapshots import Snapshot
    from panel.models.volumes import Volume


IS_MISSING_SQL = "instances.missing_on_node"
HAS_PROBLEM_SQL = (
    f"(instances.last_error is not null or {IS_MISSING_SQL}"
    " or instances.suspended_reason is not null and instances.suspended_reason <> 'user')"
)
"""The condition of the partial index for instances that need attention, which are few: the last deploy failed, they are
missing on the node, or the platform suspended them. Queries use the same words, so that databases use the index."""


class Instance(TimestampMixin, Model):
    """A virtual machine as its owner sees it. Workers write what the node reports (`power`, `missing_on_node`,
    `last_error`)."""

    __tablename__ = "instances"
    live_permissions = ("instances.view", "admin:instances:read")
    __table_args__ = (
        Index("ix_instances_account_id_id", "account_id", "id"),
        Index("ix_instances_hypervisor_id_id", "hypervisor_id", "id"),
        Index("ix_instances_account_id_display_name_id", "account_id", "display_name", "id"),
        Index("ix_instances_display_name_id", "display_name", "id"),
        Index(
            "ix_instances_with_problems",
            "account_id",
            "id",
            sqlite_where=text(HAS_PROBLEM_SQL),
            postgresql_where=text(HAS_PROBLEM_SQL),
        ),
        Index("ix_instances_account_id_ram_id", "account_id", "ram", "id"),
        Index("ix_instances_ram_id", "ram", "id"),
    )

    name: Mapped[str] = mapped_column(String(16), unique=True)
    """`h` and a number, assigned by the platform. It never changes."""
    display_name: Mapped[str]
    hostname: Mapped[str]
    notes: Mapped[str | None] = mapped_column(Text)
    tags: Mapped[list[str]] = mapped_column(JSON, default=list)
    """Sorted. Replaced as a whole, never changed in place."""
    account_id: Mapped[str] = mapped_column(ForeignKey("accounts.id"))
    project_id: Mapped[str | None] = mapped_column(ForeignKey("projects.id", ondelete="set null"), index=True)
    group_id: Mapped[str] = mapped_column(ForeignKey("hypervisor_groups.id"), index=True)
    hypervisor_id: Mapped[str] = mapped_column(ForeignKey("hypervisors.id"))
    plan_id: Mapped[str] = mapped_column(ForeignKey("plans.id"), index=True)
    pack_id: Mapped[str | None] = mapped_column(ForeignKey("resource_packs.id"), index=True)
    """The resource pack whose capacity it uses."""
    image_id: Mapped[str | None] = mapped_column(ForeignKey("images.id", ondelete="set null"), index=True)
    iso_id: Mapped[str | None] = mapped_column(ForeignKey("isos.id", ondelete="set null"), index=True)
    secondary_iso_id: Mapped[str | None] = mapped_column(ForeignKey("isos.id", ondelete="set null"), index=True)
    """The media for its two optical drives."""
    ipv4: Mapped[str | None] = mapped_column(String(45))
    ipv6: Mapped[str | None] = mapped_column(String(45))
    private_ipv4: Mapped[str | None] = mapped_column(String(45))
    """The primary addresses: pages show them and consoles connect to them."""
    cpu_cores: Mapped[int]
    ram: Mapped[int]
    storage: Mapped[int]
    bandwidth: Mapped[int] = mapped_column(default=0)
    boot: Mapped[str] = mapped_column(String(32), default="disk")
    timezone: Mapped[str | None] = mapped_column(String(64))
    enable_smtp: Mapped[bool] = mapped_column(default=True)
    enable_vnc: Mapped[bool] = mapped_column(default=True)
    tpm_enabled: Mapped[bool] = mapped_column(default=False)
    secure_boot_enabled: Mapped[bool] = mapped_column(default=False)
    """Whether its firmware is UEFI with secure boot, instead of a BIOS."""
    vnc_keymap: Mapped[str] = mapped_column(String(8), default="en-us")
    vnc_password: Mapped[str | None] = mapped_column(EncryptedText)
    ssh_host_key: Mapped[str | None] = mapped_column(Text)
    """The host key of its SSH server at the first shell, "type base64". Others are refused until accepted."""
    presented_host_key: Mapped[str | None] = mapped_column(Text)
    """The other host key that it presented last."""
    billing_mode: Mapped[str] = mapped_column(String(16), default="cloud_service")
    """`external` when an external billing system charges for it, else `cloud_service`."""
    protection_enabled: Mapped[bool] = mapped_column(default=False)
    deployed: Mapped[bool] = mapped_column(default=False)
    suspended_reason: Mapped[str | None] = mapped_column(String(16))
    """`user`, `admin` or `network`; empty when it is not suspended."""
    resume_power: Mapped[str | None] = mapped_column(String(8))
    """The power before the suspension, which is restored after it."""
    started_cpu_cores: Mapped[int | None]
    started_ram: Mapped[int | None]
    """Processors and memory (MiB) of the running machine, if they differ from the configured ones."""
    topology: Mapped[dict | None] = mapped_column(JSON(none_as_null=True))
    """`sockets`, `cores` and `threads`, if chosen; empty: each core is a processor of its own."""
    topology_pending: Mapped[bool] = mapped_column(default=False)
    """The running machine was started with another topology."""
    migrating: Mapped[bool] = mapped_column(default=False)
    power: Mapped[str] = mapped_column(String(8), default="off")
    """`on` or `off`, as the node reported it at `power_reported_at`."""
    power_reported_at: Mapped[datetime | None]
    agent_checked_at: Mapped[datetime | None]
    """When the guest agent was last polled."""
    agent_seen_at: Mapped[datetime | None]
    """When it last answered."""
    missing_on_node: Mapped[bool] = mapped_column(default=False)
    """Deployed, but missing on the node."""
    paused: Mapped[bool] = mapped_column(default=False)
    """It counts as on, but the node has paused it, for example because a storage is full."""
    last_error: Mapped[str | None] = mapped_column(MessageText)

    account: Mapped[Account] = relationship()
    group: Mapped[HypervisorGroup] = relationship()
    hypervisor: Mapped[Hypervisor] = relationship()
    plan: Mapped[Plan] = relationship()
    image: Mapped[Image | None] = relationship()
    iso: Mapped[Iso | None] = relationship(foreign_keys=[iso_id])
    secondary_iso: Mapped[Iso | None] = relationship(foreign_keys=[secondary_iso_id])
    tasks: Mapped[list[Task]] = relationship(
        primaryjoin=lambda: Instance.id == foreign(Task.resource_id), order_by=Task.id.desc(), viewonly=True
    )
    disks: Mapped[list["Disk"]] = relationship(
        back_populates="instance", cascade="all, delete-orphan", order_by="Disk.position", passive_deletes=True
    )
    interfaces: Mapped[list["Interface"]] = relationship(
        back_populates="instance", cascade="all, delete-orphan", order_by="Interface.position", passive_deletes=True
    )
    volumes: Mapped[list["Volume"]] = relationship(
        back_populates="instance", order_by="Volume.id", passive_deletes=True
    )
    snapshots: Mapped[list["Snapshot"]] = relationship(
        back_populates="instance", cascade="all, delete-orphan", order_by="Snapshot.id", passive_deletes=True
    )
    forges: Mapped[list["Forge"]] = relationship(
        back_populates="instance", cascade="all, delete-orphan", order_by="Forge.id.desc()", passive_deletes=True
    )
    """Newest first. Services delete all but the latest ten."""
    pack: Mapped["ResourcePack | None"] = relationship()
    """The pack whose capacity it uses, if any."""
    if TYPE_CHECKING:
        rebuilding: Mapped[bool]
        transition: Mapped[str | None]
        task_running: Mapped[bool]
        backup_policy_id: Mapped[str | None]

    @hybrid_property
    def state(self) -> str:
        """The state word of the machine (API reference: instance states)."""
        if self.migrating:
            return "migrating"
        if self.suspended_reason:
            return "suspended"
        if not self.deployed or self.rebuilding:
            return "pending"
        return "running" if self.power == "on" else "stopped"

    @state.inplace.expression
    @classmethod
    def _state(cls) -> ColumnElement[str]:
        return case(
            (cls.migrating, "migrating"),
            (cls.suspended_reason.is_not(None), "suspended"),
            (or_(~cls.deployed, cls.rebuilding), "pending"),
            (cls.power == "on", "running"),
            else_="stopped",
        )

    @hybrid_property
    def status(self) -> int:
        """The older integer status: 2 suspended, 1 powered on, 0 powered off."""
        return 2 if self.suspended_reason else int(self.power == "on")

    @status.inplace.expression
    @classmethod
    def _status(cls) -> ColumnElement[int]:
        return case((cls.suspended_reason.is_not(None), 2), (cls.power == "on", 1), else_=0)

    @property
    def agent_down(self) -> bool:
        """Whether the guest agent is known not to answer.

        Observations from before the machine was turned on do not count.
        """
        looked = self.agent_checked_at
        if looked is None or (self.power_reported_at and looked < self.power_reported_at):
            return False
        return self.agent_seen_at is None or self.agent_seen_at < looked

    @property
    def pending_cpu_cores(self) -> int | None:
        return None if self.started_ram is None else self.cpu_cores

    @property
    def pending_ram(self) -> int | None:
        return None if self.started_ram is None else self.ram

    @property
    def chosen_topology(self) -> SimpleNamespace | None:
        return SimpleNamespace(**self.topology) if self.topology else None

    @property
    def iso_url(self) -> str | None:
        return self.iso.url if self.iso else None

    @property
    def secondary_iso_url(self) -> str | None:
        return self.secondary_iso.url if self.secondary_iso else None

    @property
    def primary_interface(self) -> "Interface | None":
        return self.interfaces[0] if self.interfaces else None

    @property
    def addresses(self) -> list[Address]:
        return [address for interface in self.interfaces for address in interface.addresses]

    @property
    def prefixes(self) -> list[Address]:
        """The networks that are routed to it."""
        return [prefix for interface in self.interfaces for prefix in interface.prefixes]

    @property
    def location_name(self) -> str:
        return self.group.display_name

    @property
    def owner_email(self) -> str:
        return self.account.email

    @property
    def hypervisor_name(self) -> str:
        return self.hypervisor.name


class Disk(TimestampMixin, Model):
    """A disk of an instance. On the node it is called `name`, in the pool of its storage."""

    __tablename__ = "disks"
    is_audit_part = True

    instance_id: Mapped[str] = mapped_column(ForeignKey("instances.id", ondelete="cascade"), index=True)
    storage_id: Mapped[str] = mapped_column(ForeignKey("storages.id"), index=True)
    name: Mapped[str] = mapped_column(String(64), unique=True)
    position: Mapped[int] = mapped_column(default=0)
    size: Mapped[int]
    """GiB."""
    attached: Mapped[bool] = mapped_column(default=True)
    """Whether the machine has it. A detached disk keeps its data."""

    instance: Mapped[Instance] = relationship(back_populates="disks")
    storage: Mapped[Storage] = relationship()

    @property
    def is_primary(self) -> bool:
        return self.position == 0


class Interface(TimestampMixin, Model):
    """A network interface of an instance. Counters are from the guest's point of view: received is its download."""

    __tablename__ = "interfaces"
    is_audit_part = True

    instance_id: Mapped[str] = mapped_column(ForeignKey("instances.id", ondelete="cascade"), index=True)
    mac: Mapped[str] = mapped_column(String(17), unique=True)
    kind: Mapped[str] = mapped_column(String(16), default="public")
    position: Mapped[int] = mapped_column(default=0)
    port_speed: Mapped[int] = mapped_column(default=0)
    """Mbit/s each way; 0 is unlimited."""
    received: Mapped[int] = mapped_column(BigInteger, default=0)
    sent: Mapped[int] = mapped_column(BigInteger, default=0)
    """Bytes of the current billing period."""
    counted_received: Mapped[int] = mapped_column(BigInteger, default=0)
    counted_sent: Mapped[int] = mapped_column(BigInteger, default=0)
    """The node's counters when they were last read; the node resets them when the machine starts."""
    period: Mapped[str] = mapped_column(String(7), default=lambda: f"{clock.now():%Y-%m}", index=True)
    """The billing period, a calendar month (UTC), of `received` and `sent`."""
    disconnect_reason: Mapped[str | None] = mapped_column(String(8), index=True)
    """Why the interface is disconnected: `traffic` when the quota is used up, `operator`; empty while connected."""

    instance: Mapped[Instance] = relationship(back_populates="interfaces")
    addresses: Mapped[list[Address]] = relationship(
        primaryjoin=lambda: (Address.interface_id == Interface.id) & Address.length.is_(None),
        back_populates="interface",
        order_by=Address.sort_key,
    )
    prefixes: Mapped[list[Address]] = relationship(
        primaryjoin=lambda: (Address.interface_id == Interface.id) & Address.length.is_not(None),
        order_by=Address.sort_key,
        viewonly=True,
    )
    """The networks that are routed to it."""

    @property
    def used_bandwidth(self) -> float:
        """GB of the current billing period, both ways."""
        current_bytes = self.received + self.sent if self.period == f"{clock.now():%Y-%m}" else 0
        return round(current_bytes / 1e9, 2)


Instance.task_running = column_property(
    exists().where(Task.resource_id == Instance.id, is_open(Task.status)).correlate_except(Task)
)
"""Whether a task of the instance is queued or running."""

Instance.rebuilding = column_property(
    exists()
    .where(
        Task.resource_id == Instance.id,
        Task.lock.in_(("exclusive", "final")),
        is_open(Task.status),
        Task.kind.in_(REBUILD_TASK_KINDS),
    )
    .correlate_except(Task)
)

Instance.transition = column_property(
    select(Task.kind)
    .where(Task.resource_id == Instance.id, Task.kind.in_(TRANSITION_TASK_KINDS), is_open(Task.status))
    .order_by(case((Task.status == "running", 0), else_=1), Task.id)
    .limit(1)
    .correlate_except(Task)
    .scalar_subquery()
)
"""The kind of the open task that changes its state: the running one, or the next one; else None."""

Account.instances = column_property(
    select(func.count())
    .select_from(Instance)
    .where(Instance.account_id == Account.id)
    .correlate(Account)
    .scalar_subquery(),
    deferred=True,
)
"""How many instances the account has."""

Hypervisor.instances_count = column_property(
    select(func.count())
    .select_from(Instance)
    .where(Instance.hypervisor_id == Hypervisor.id)
    .correlate(Hypervisor)
    .scalar_subquery(),
    deferred=True,
)
"""How many instances are on it."""
