"""Backups of instances and volumes. They outlive both."""

from datetime import datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from sqlalchemy import JSON, BigInteger, ForeignKey, Index, String, Text, and_, text
from sqlalchemy.orm import Mapped, foreign, mapped_column, relationship

from panel.core.db import MessageText, Model, TimestampMixin
from panel.models.accounts import Account
from panel.models.backup_destinations import BackupDestination, BackupRepository
from panel.models.instances import Instance
from panel.models.tasks import Task
from panel.models.volumes import Volume

if TYPE_CHECKING:
    from panel.models.backup_copies import BackupCopy

IS_CLAIMED = text("delete_claimed_at is not null")
IS_DAMAGED = text("damaged")


class InstanceBackup(TimestampMixin, Model):
    """One backup. Its repository has a point with the backup's id."""

    __tablename__ = "instance_backups"
    live_permissions = ("instances.view", "admin:instances:read")
    __table_args__ = (
        Index("ix_instance_backups_account_id_id", "account_id", "id"),
        Index("ix_instance_backups_account_id_size_id", "account_id", "size", "id"),
        Index("ix_instance_backups_account_id_name_id", "account_id", "name", "id"),
        Index("ix_instance_backups_account_id_destination_id_id", "account_id", "destination_id", "id"),
        Index("ix_instance_backups_instance_id_id", "instance_id", "id"),
        Index("ix_instance_backups_volume_id_id", "volume_id", "id"),
        Index("ix_instance_backups_policy_id_instance_id_id", "policy_id", "instance_id", "id"),
        Index("ix_instance_backups_account_id_rbs_backup_time_id", "account_id", "rbs_backup_time", "id"),
        Index("ix_instance_backups_rbs_backup_time_id", "rbs_backup_time", "id"),
        Index("ix_instance_backups_size_id", "size", "id"),
        Index("ix_instance_backups_name_id", "name", "id"),
        Index("ix_instance_backups_claimed_id", "id", sqlite_where=IS_CLAIMED, postgresql_where=IS_CLAIMED),
        Index(
            "ix_instance_backups_damaged_repository_id",
            "repository_id",
            sqlite_where=IS_DAMAGED,
            postgresql_where=IS_DAMAGED,
        ),
    )

    account_id: Mapped[str] = mapped_column(ForeignKey("accounts.id"))
    repository_id: Mapped[str] = mapped_column(ForeignKey("backup_repositories.id"), index=True)
    destination_id: Mapped[str] = mapped_column(ForeignKey("backup_destinations.id"), index=True)
    instance_id: Mapped[str] = mapped_column(String(36))
    """Plain text, because a backup outlives its instance. Empty for a backup of a volume."""
    volume_id: Mapped[str | None] = mapped_column(String(36))
    """The volume, if it is a backup of one."""
    recorded_name: Mapped[str]
    recorded_hostname: Mapped[str]
    """The instance's display name and host name when the backup was made; of a volume its name, and nothing."""
    instance_deleted_at: Mapped[datetime | None]
    is_appliance: Mapped[bool] = mapped_column(default=False)
    """Of a machine that the platform runs for the customer: customers do not see it."""
    secure_boot_enabled: Mapped[bool] = mapped_column(default=False)
    """The instance's setting when the backup was made: it decides which firmware starts the disk."""
    name: Mapped[str]
    description: Mapped[str] = mapped_column(Text, default="")
    backup_type: Mapped[str] = mapped_column(String(16))
    """`full` or `incremental`: as requested, and when it is complete, as it was read."""
    backup_device: Mapped[str] = mapped_column(String(16), default="all")
    """`primary` (the first disk) or `all` disks."""
    status: Mapped[str] = mapped_column(String(16), default="creating")
    """`creating`, `complete` or `failed`."""
    error: Mapped[str | None] = mapped_column(MessageText)
    completed_at: Mapped[datetime | None]
    size: Mapped[int] = mapped_column(BigInteger, default=0)
    """Bytes that it added to the repository."""
    statistics: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    """Bytes read and used, chunks stored and reused."""
    disks: Mapped[list[dict[str, Any]]] = mapped_column(JSON, default=list)
    """For each disk: id, name on the node, position, size in bytes, read mode and the reason of a full read."""
    consistency: Mapped[str | None] = mapped_column(String(16))
    chain_reason: Mapped[str | None] = mapped_column(String(32))
    """Why disks were read completely, or None."""
    parent_backup_id: Mapped[str | None] = mapped_column(String(36), index=True)
    rbs_namespace: Mapped[str | None] = mapped_column(String(256))
    rbs_backup_id: Mapped[str | None] = mapped_column(String(64))
    rbs_backup_time: Mapped[int | None] = mapped_column(BigInteger)
    """The snapshot on a backup server: its namespace (empty for the root), group, and time in seconds. Recorded before
    it is made."""
    based_on_backup_id: Mapped[str | None] = mapped_column(String(36))
    based_on_rbs_backup_time: Mapped[int | None] = mapped_column(BigInteger)
    """The backup and snapshot that an incremental one on a backup server reused, which may be deleted."""
    checkpoint: Mapped[str | None] = mapped_column(String(64))
    """The node's checkpoint from which the next increment can start."""
    checkpoint_machine_id: Mapped[str | None] = mapped_column(String(36), index=True)
    """The machine through which the volume was read, while it has it: with the same one the next backup of the volume
    can continue."""
    is_chain_end: Mapped[bool] = mapped_column(default=False)
    """The next backup reads everything."""
    reset_disk_ids: Mapped[list[str]] = mapped_column(JSON, default=list)
    """Disks that the next backup reads completely."""
    protected: Mapped[bool] = mapped_column(default=False)
    policy_id: Mapped[str | None] = mapped_column(String(36))
    """The policy that requested it, which may be deleted."""
    managed_group_id: Mapped[str | None] = mapped_column(String(36))
    """The location whose customers may be charged for it, because a policy or job of the platform requested it."""
    verification_status: Mapped[str | None] = mapped_column(String(16))
    """`ok` or `failed`, as a backup server reports it; None when it did not verify the snapshot."""
    verified_at: Mapped[datetime | None]
    """When the last complete verification began that found nothing damaged in it."""
    damaged: Mapped[bool] = mapped_column(default=False)
    """Whether a verification found that it cannot be restored completely."""
    missing_candidate_at: Mapped[datetime | None]
    """When a comparison with the destination did not find it, if no later one has."""
    missing_confirmed_at: Mapped[datetime | None]
    """When a second comparison did not find it either. Customers do not see it from then on."""
    delete_claimed_at: Mapped[datetime | None]
    """When its deletion was requested. Until that is confirmed, nothing else may be done with it."""
    delete_dispatched_at: Mapped[datetime | None]
    """When a worker began to change the destination: from then on a failure says nothing about the outcome."""
    delete_task_id: Mapped[str | None] = mapped_column(String(36))

    account: Mapped[Account] = relationship()
    repository: Mapped[BackupRepository] = relationship()
    destination: Mapped[BackupDestination] = relationship()
    instance: Mapped[Instance | None] = relationship(
        primaryjoin=lambda: and_(
            foreign(InstanceBackup.instance_id) == Instance.id, InstanceBackup.account_id == Instance.account_id
        ),
        viewonly=True,
    )
    """The live instance, unless it belongs to another account now."""
    volume: Mapped[Volume | None] = relationship(
        primaryjoin=lambda: and_(
            foreign(InstanceBackup.volume_id) == Volume.id,
            InstanceBackup.account_id == Volume.account_id,
            Volume.status != "deleting",
        ),
        viewonly=True,
    )
    """The volume, unless it was deleted or belongs to another account now."""
    delete_task: Mapped[Task | None] = relationship(
        primaryjoin=lambda: foreign(InstanceBackup.delete_task_id) == Task.id, viewonly=True
    )

    copies: Mapped[list["BackupCopy"]] = relationship(
        primaryjoin="foreign(BackupCopy.backup_id) == InstanceBackup.id", order_by="BackupCopy.id", viewonly=True
    )
    """Its copies in other destinations."""

    @property
    def has_complete_copy(self) -> bool:
        return any(copy.status == "complete" for copy in self.copies)

    @property
    def is_recovered(self) -> bool:
        """Whether it was deleted, and its copy is all that is left."""
        return self.repository.copy_of_id is not None

    @property
    def disk_facts(self) -> list[SimpleNamespace]:
        return [SimpleNamespace(**disk) for disk in self.disks]

    @property
    def statistics_facts(self) -> SimpleNamespace | None:
        return SimpleNamespace(**self.statistics) if self.statistics else None

    @property
    def created(self) -> bool:
        return self.status == "complete"

    @property
    def is_on_rbs(self) -> bool:
        """Whether it is on a remote backup server."""
        return self.destination_type == "rbs"

    @property
    def read_mode(self) -> str | None:
        return self.backup_type if self.is_on_rbs and self.created else None

    @property
    def bytes_read(self) -> int | None:
        return self.get_rbs_statistic("bytes_read")

    @property
    def bytes_uploaded(self) -> int | None:
        return self.get_rbs_statistic("bytes_stored")

    @property
    def chunks_reused(self) -> int | None:
        return self.get_rbs_statistic("chunks_shared")

    def get_rbs_statistic(self, name: str) -> int | None:
        return self.statistics[name] if self.is_on_rbs and self.statistics else None

    @property
    def shown_verification_status(self) -> str | None:
        return (self.verification_status or "none") if self.is_on_rbs and self.created else None

    @property
    def missing_on_rbs(self) -> bool:
        return self.is_on_rbs and self.missing_confirmed_at is not None

    @property
    def is_claimed(self) -> bool:
        return self.delete_claimed_at is not None

    @property
    def deletion(self) -> str | None:
        """`queued` or `running`; `unconfirmed` when the outcome is not known; None without a deletion."""
        if not self.is_claimed:
            return None
        if self.delete_task is None or not self.delete_task.open:
            return "unconfirmed"
        return "running" if self.delete_task.status == "running" else "queued"

    @property
    def is_changing(self) -> bool:
        """Whether a task will soon change it."""
        return self.status == "creating" or self.deletion in ("queued", "running")

    @property
    def instance_name(self) -> str:
        return self.instance.display_name if self.instance else self.recorded_name

    @property
    def resource_name(self) -> str:
        return self.volume_name if self.volume_id else self.instance_name

    @property
    def instance_hostname(self) -> str:
        return self.instance.hostname if self.instance else self.recorded_hostname

    @property
    def machine_id(self) -> str | None:
        """The machine whose checkpoint it has, if any."""
        return self.instance_id or self.checkpoint_machine_id

    @property
    def volume_name(self) -> str:
        return self.volume.name if self.volume else self.recorded_name

    @property
    def volume_deleted(self) -> bool:
        return self.volume is None

    @property
    def volume_status(self) -> str:
        """Its status in the words of volumes."""
        if self.is_claimed:
            return "deleting"
        return "available" if self.created else self.status

    @property
    def instance_deleted(self) -> bool:
        return self.instance_deleted_at is not None

    @property
    def instance_state(self) -> str:
        return "deleted" if self.instance_deleted else "live"

    @property
    def instance_cleanup_pending(self) -> bool:
        """Whether the instance is gone, and the removal of the backup is not confirmed."""
        return self.instance_deleted and self.is_claimed

    @property
    def destination_name(self) -> str:
        return self.destination.name

    @property
    def destination_type(self) -> str:
        return self.destination.storage_type

    @property
    def owner_email(self) -> str:
        return self.account.email
