"""Micro VMs: small machines that nodes start from a kernel, with the images, the nodes' profiles and snapshots.

Micro VMs are no instances. A destroyed one stays as an ended row for some time; lists show live rows only, and their
indexes contain only those.
"""

from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import orjson
from sqlalchemy import JSON, BigInteger, ForeignKey, Index, Numeric, String, Text, text
from sqlalchemy.orm import Mapped, foreign, mapped_column, relationship

from panel.core import clock
from panel.core.db import EncryptedText, MessageText, Model, TimestampMixin
from panel.models.accounts import Account
from panel.models.hypervisors import Hypervisor, HypervisorGroup, Storage
from panel.models.tasks import Task

if TYPE_CHECKING:
    from panel.models.microvm_image_builds import MicrovmImageBuild

IS_LIVE = text("ended_at is null")
"""The condition of the partial indexes of live rows."""

DEFAULT_ADDRESS_RANGE = "100.96.0.0/16"
"""Shared address space (RFC 6598), which is routed nowhere."""
DEFAULT_NAMESERVERS = ("1.1.1.1", "9.9.9.9")


class MicrovmProfile(TimestampMixin, Model):
    """What a node offers to micro VMs. A node without a profile has none."""

    __tablename__ = "microvm_profiles"

    hypervisor_id: Mapped[str] = mapped_column(ForeignKey("hypervisors.id", ondelete="cascade"), unique=True)
    enabled: Mapped[bool] = mapped_column(default=True)
    """Off: no new micro VMs are placed on the node."""
    max_microvms: Mapped[int] = mapped_column(default=0)
    """Live micro VMs on the node at most; 0 is unlimited."""
    max_memory_mb: Mapped[int] = mapped_column(default=0)
    """MiB that they may have together; 0: as much as the node has free."""
    allows_internet_access: Mapped[bool] = mapped_column(default=False)
    """Whether micro VMs created on the node get a network interface, and those that have one may use it."""
    address_range: Mapped[str] = mapped_column(String(18), default=DEFAULT_ADDRESS_RANGE)
    """The network from which they get their addresses. The first address is the node's."""
    nameservers: Mapped[list[str]] = mapped_column(JSON, default=lambda: list(DEFAULT_NAMESERVERS))
    refused_networks: Mapped[list[str]] = mapped_column(JSON, default=list)
    """IPv4 networks that they never reach, besides those that the panel knows."""

    hypervisor: Mapped[Hypervisor] = relationship(lazy="joined")

    @property
    def name(self) -> str:
        return self.hypervisor.name


class MicrovmImage(TimestampMixin, Model):
    """What micro VMs are created from: a disk, a kernel and an initial file system.

    The files are in the panel's data directory; nodes get copies when they need them.
    """

    __tablename__ = "microvm_images"
    live_permissions = ("microvm.view", "admin:microvm:read")
    __table_args__ = (
        Index("uq_microvm_images_account_id_name", "account_id", "name", unique=True),
        Index(
            "uq_microvm_images_name_platform",
            "name",
            unique=True,
            sqlite_where=text("account_id is null"),
            postgresql_where=text("account_id is null"),
        ),
    )

    account_id: Mapped[str | None] = mapped_column(ForeignKey("accounts.id", ondelete="cascade"))
    """The owner; empty for the platform's images, which everybody may use."""
    name: Mapped[str] = mapped_column(String(64))
    aliases: Mapped[list[str]] = mapped_column(JSON, default=list)
    """Further names, such as `base`."""
    label: Mapped[str] = mapped_column(default="")
    status: Mapped[str] = mapped_column(String(16), default="available")
    """`building, available` or `failed`."""
    cpu_cores: Mapped[int] = mapped_column(default=1)
    memory_mb: Mapped[int] = mapped_column(default=512)
    disk_gb: Mapped[int] = mapped_column(default=2)
    """The size of a micro VM that asks for none: cores, MiB, GiB."""
    min_memory_mb: Mapped[int] = mapped_column(default=128)
    min_disk_gb: Mapped[int] = mapped_column(default=1)
    price: Mapped[Decimal] = mapped_column(Numeric(12, 4), default=Decimal(0))
    """A month of a micro VM, in the installation's currency; 0: micro VMs of it are not metered."""
    is_public: Mapped[bool] = mapped_column(default=True)
    """Of a platform's image: whether customers may use it."""
    encrypted_envs: Mapped[str | None] = mapped_column("envs", EncryptedText)
    disk_path: Mapped[str]
    disk_size: Mapped[int] = mapped_column(BigInteger)
    disk_sha256: Mapped[str] = mapped_column(String(64))
    kernel_path: Mapped[str]
    kernel_size: Mapped[int] = mapped_column(BigInteger)
    kernel_sha256: Mapped[str] = mapped_column(String(64))
    initrd_path: Mapped[str]
    initrd_size: Mapped[int] = mapped_column(BigInteger)
    initrd_sha256: Mapped[str] = mapped_column(String(64))
    """The three files: path relative to the data directory, bytes, checksum."""
    kernel_options: Mapped[str] = mapped_column(Text, default="")
    """The kernel's command line."""
    files_key: Mapped[str] = mapped_column(String(32), index=True)
    """The name of the three files on nodes, made from their checksums. Empty until it was built."""

    account: Mapped[Account | None] = relationship()
    build: Mapped["MicrovmImageBuild | None"] = relationship(
        back_populates="image", foreign_keys="MicrovmImageBuild.id", passive_deletes=True, cascade="all, delete-orphan"
    )

    @property
    def envs(self) -> dict[str, str]:
        """Environment variables of the processes in its micro VMs."""
        return orjson.loads(self.encrypted_envs) if self.encrypted_envs else {}

    @envs.setter
    def envs(self, envs: dict[str, str]) -> None:
        self.encrypted_envs = orjson.dumps(envs).decode() if envs else None

    @property
    def is_platform(self) -> bool:
        return self.account_id is None

    @property
    def is_for_everybody(self) -> bool:
        """Whether all customers may use it."""
        return self.is_platform and self.is_public

    @property
    def env_names(self) -> list[str]:
        return sorted(self.envs)

    @property
    def owner_email(self) -> str | None:
        return self.account.email if self.account else None


class MicrovmMachineMixin:
    """What a machine on a node is built from: the same for micro VMs and for members of a pool, which become some."""

    sandbox_id: Mapped[str] = mapped_column(String(32), unique=True)
    """Its id in the sandbox API and in host names: lower-case letters and digits."""
    boot: Mapped[dict[str, str]] = mapped_column(JSON)
    """`key` of the image's files on the node, and kernel `options`: they stay as they were when it was created."""
    cpu_cores: Mapped[int]
    memory_mb: Mapped[int]
    disk_gb: Mapped[int]
    mac: Mapped[str] = mapped_column(String(17))
    address: Mapped[str | None] = mapped_column(String(15))
    """Its IPv4 address in the node's network of micro VMs; None: it has no network interface."""

    @property
    def node_name(self) -> str:
        """The machine's name on the node."""
        return f"m-{self.sandbox_id}"

    @property
    def disk_name(self) -> str:
        return f"{self.node_name}.qcow2"


class Microvm(MicrovmMachineMixin, TimestampMixin, Model):
    """A micro VM of an account, live until `ended_at`."""

    __tablename__ = "microvms"
    live_permissions = ("microvm.view", "admin:microvm:read")
    __table_args__ = (
        *(
            Index(name, *columns, sqlite_where=IS_LIVE, postgresql_where=IS_LIVE)
            for name, columns in {
                "ix_microvms_live_started_at_id": ("started_at", "id"),
                "ix_microvms_live_account_id_started_at_id": ("account_id", "started_at", "id"),
                "ix_microvms_live_hypervisor_id": ("hypervisor_id",),
                "ix_microvms_live_storage_id": ("storage_id",),
                "ix_microvms_live_expires_at": ("expires_at",),
            }.items()
        ),
        Index(
            "ix_microvms_next_destroy_at",
            "next_destroy_at",
            sqlite_where=text("next_destroy_at is not null"),
            postgresql_where=text("next_destroy_at is not null"),
        ),
        Index(
            "ix_microvms_boot_ends_at",
            "boot_ends_at",
            sqlite_where=text("boot_ends_at is not null"),
            postgresql_where=text("boot_ends_at is not null"),
        ),
        Index(
            "ix_microvms_ended_at",
            "ended_at",
            sqlite_where=text("ended_at is not null"),
            postgresql_where=text("ended_at is not null"),
        ),
        Index(
            "uq_microvms_live_hypervisor_id_address",
            "hypervisor_id",
            "address",
            unique=True,
            sqlite_where=IS_LIVE,
            postgresql_where=IS_LIVE,
        ),
    )

    name: Mapped[str]
    account_id: Mapped[str] = mapped_column(ForeignKey("accounts.id", ondelete="cascade"))
    group_id: Mapped[str | None] = mapped_column(ForeignKey("hypervisor_groups.id", ondelete="set null"), index=True)
    hypervisor_id: Mapped[str | None] = mapped_column(ForeignKey("hypervisors.id", ondelete="set null"))
    storage_id: Mapped[str | None] = mapped_column(ForeignKey("storages.id", ondelete="set null"))
    image_id: Mapped[str | None] = mapped_column(ForeignKey("microvm_images.id", ondelete="set null"), index=True)
    """Location, node, storage and image. An ended row may have outlived them."""
    origin: Mapped[str] = mapped_column(String(16), default="api")
    """`api`, or `sandbox` when it was created through the sandbox API."""
    api_key_id: Mapped[str | None] = mapped_column(String(36))
    """The sandbox key that created it."""
    tags: Mapped[list[str]] = mapped_column(JSON, default=list)
    meta: Mapped[dict[str, str]] = mapped_column("metadata", JSON, default=dict)
    """What the customer's programs store with it."""
    encrypted_envs: Mapped[str | None] = mapped_column("envs", EncryptedText)
    access_token: Mapped[str] = mapped_column(EncryptedText)
    """Authorizes requests to the program inside the micro VM."""
    state: Mapped[str] = mapped_column(String(16), default="starting")
    """`starting, running, pausing, paused, stopping, stopped, destroying` or `failed`."""
    state_changed_at: Mapped[datetime] = mapped_column(default=clock.now)
    """Reports of the node that are older do not change the state."""
    error: Mapped[str | None] = mapped_column(MessageText)
    started_at: Mapped[datetime] = mapped_column(default=clock.now)
    timeout_seconds: Mapped[int | None]
    """The time-out that a start or resume sets; None: it does not expire."""
    expires_at: Mapped[datetime | None]
    is_timeout_pending: Mapped[bool] = mapped_column(default=False)
    """Whether the time-out of its latest start counts again from when its guest can be used."""
    on_timeout: Mapped[str] = mapped_column(String(8), default="kill")
    """`kill` or `pause`."""
    boot_ends_at: Mapped[datetime | None]
    """When its guest is checked; set from its first boot until the guest has answered."""
    ended_at: Mapped[datetime | None]
    next_destroy_at: Mapped[datetime | None]
    """When the next attempt to destroy it is due; set while it is `destroying`."""
    destroy_attempts: Mapped[int] = mapped_column(default=0)
    """Failed attempts."""
    allow_internet_access: Mapped[bool] = mapped_column(default=False)
    """Whether its owner wants internet access. The node's profile must allow it too."""
    allow_out: Mapped[list[str]] = mapped_column(JSON, default=list)
    deny_out: Mapped[list[str]] = mapped_column(JSON, default=list)
    """Networks that it may, and may not, connect to. The former win."""
    usage: Mapped[dict[str, Any] | None] = mapped_column(JSON)
    """What it used when the node was polled last."""
    task_id: Mapped[str | None] = mapped_column(String(36))
    """The latest task."""

    account: Mapped[Account] = relationship()
    group: Mapped[HypervisorGroup | None] = relationship()
    hypervisor: Mapped[Hypervisor | None] = relationship()
    storage: Mapped[Storage | None] = relationship()
    profile: Mapped[MicrovmProfile | None] = relationship(
        primaryjoin=lambda: foreign(Microvm.hypervisor_id) == MicrovmProfile.hypervisor_id, viewonly=True
    )
    image: Mapped[MicrovmImage | None] = relationship()
    latest_task: Mapped[Task | None] = relationship(
        primaryjoin=lambda: foreign(Microvm.task_id) == Task.id, viewonly=True
    )
    snapshots: Mapped[list["MicrovmSnapshot"]] = relationship(
        back_populates="microvm", cascade="all, delete-orphan", order_by="MicrovmSnapshot.id", passive_deletes=True
    )

    @property
    def envs(self) -> dict[str, str]:
        """Its own environment variables."""
        return orjson.loads(self.encrypted_envs) if self.encrypted_envs else {}

    @property
    def pending(self) -> Task | None:
        """The open task, or None."""
        return self.latest_task if self.latest_task and self.latest_task.open else None

    @property
    def is_internet_offered(self) -> bool:
        """Whether it has a network interface and the node's profile allows its use."""
        return self.address is not None and self.profile is not None and self.profile.allows_internet_access

    @property
    def has_internet_access(self) -> bool:
        return self.is_internet_offered and self.allow_internet_access

    @property
    def owner_email(self) -> str:
        return self.account.email


class MicrovmSnapshot(TimestampMixin, Model):
    """A point to which a micro VM can be rolled back, with its memory if it ran. On the node it is called by its id."""

    __tablename__ = "microvm_snapshots"
    __table_args__ = (Index("uq_microvm_snapshots_microvm_id_name", "microvm_id", "name", unique=True),)

    microvm_id: Mapped[str] = mapped_column(ForeignKey("microvms.id", ondelete="cascade"))
    name: Mapped[str] = mapped_column(String(64))
    has_memory: Mapped[bool] = mapped_column(default=False)
    status: Mapped[str] = mapped_column(String(16), default="creating")
    """`creating, available, restoring, deleting` or `failed`."""
    error: Mapped[str | None] = mapped_column(MessageText)

    microvm: Mapped[Microvm] = relationship(back_populates="snapshots")
