"""Where backups are stored."""

import json
from datetime import date, datetime
from typing import Any

from sqlalchemy import JSON, BigInteger, Column, ForeignKey, Index, String, Table, text
from sqlalchemy.orm import Mapped, mapped_column, relationship

from panel.core.db import EncryptedText, MessageText, Model, TimestampMixin
from panel.models.accounts import Account
from panel.models.hypervisors import Hypervisor

INSTANCE_BACKUPS, INSTALLATION_BACKUPS = "instances", "installation"
"""Purposes of destinations."""

destination_hypervisors = Table(
    "backup_destination_hypervisors",
    Model.metadata,
    Column("destination_id", ForeignKey("backup_destinations.id", ondelete="cascade"), primary_key=True),
    Column("hypervisor_id", ForeignKey("hypervisors.id", ondelete="cascade"), primary_key=True, index=True),
)


class BackupDestination(TimestampMixin, Model):
    """A storage for backups. Workers write the columns below `status`, as they last observed them."""

    __tablename__ = "backup_destinations"
    live_permissions = (None, "admin:hypervisors:read")

    name: Mapped[str] = mapped_column(String(64), unique=True)
    storage_type: Mapped[str] = mapped_column(String(16))
    """`local`: a directory that every worker reaches under the same path. `s3`: a bucket.
    `rclone`: a remote of rclone, whose configuration every worker has. `rbs`: a datastore of a backup server."""
    config_text: Mapped[str] = mapped_column("config", EncryptedText)
    """JSON. It may have secrets, so no interface returns it."""
    purpose: Mapped[str] = mapped_column(String(16), default=INSTANCE_BACKUPS)
    """`instances`, or `installation`: only for backups of the installation itself."""
    enabled: Mapped[bool] = mapped_column(default=True)
    """Whether new backups are stored there."""
    all_hypervisors: Mapped[bool] = mapped_column(default=True)
    """Whether it is for backups of every hypervisor; else of `hypervisors`, which may all have been removed."""
    bandwidth_limit: Mapped[int] = mapped_column(default=0)
    """MiB per second at which one backup reads disks; 0 is unlimited."""
    copy_to_id: Mapped[str | None] = mapped_column(ForeignKey("backup_destinations.id"), index=True)
    """The destination to which new backups are copied."""
    copy_retention_days: Mapped[int] = mapped_column(default=30)
    """Days for which these copies cannot be deleted."""
    status: Mapped[str] = mapped_column(String(16), default="unknown")
    """`unknown`, `available` or `unavailable`."""
    status_detail: Mapped[str | None] = mapped_column(MessageText)
    checked_at: Mapped[datetime | None]
    check_steps: Mapped[list[dict[str, Any]]] = mapped_column(JSON, default=list)
    """The results of the last check: name, success and message of each step."""
    capacity: Mapped[int | None] = mapped_column(BigInteger)
    free: Mapped[int | None] = mapped_column(BigInteger)
    """Bytes."""

    copy_to: Mapped["BackupDestination | None"] = relationship(remote_side="BackupDestination.id")
    hypervisors: Mapped[list[Hypervisor]] = relationship(secondary=destination_hypervisors, order_by=Hypervisor.name)

    @property
    def config(self) -> dict[str, Any]:
        return json.loads(self.config_text)

    @config.setter
    def config(self, values: dict[str, Any]) -> None:
        self.config_text = json.dumps(values)

    @property
    def has_managed_retention(self) -> bool:
        """Whether prune jobs of a backup server delete old backups, and not backup policies."""
        return self.storage_type == "rbs" and bool(self.config.get("rbs_managed_retention"))

    @property
    def hypervisor_ids(self) -> list[str]:
        return [hypervisor.id for hypervisor in self.hypervisors]


class BackupDestinationSize(Model):
    """What a destination had at the end of a day, for its growth. The row of the current day is updated."""

    __tablename__ = "backup_destination_sizes"
    is_audit_part = True
    __table_args__ = {"sqlite_with_rowid": False}

    destination_id: Mapped[str] = mapped_column(
        String(36), ForeignKey("backup_destinations.id", ondelete="cascade"), primary_key=True
    )
    day: Mapped[date] = mapped_column(primary_key=True, index=True)
    stored_bytes: Mapped[int] = mapped_column(BigInteger)
    """Bytes that the backups and copies there have added."""
    used_bytes: Mapped[int | None] = mapped_column(BigInteger)
    """Bytes in use there, by whomever; None where the storage does not report it."""


IS_NO_COPY = text("copy_of_id is null")


class BackupRepository(TimestampMixin, Model):
    """The repository of one account in a destination, with its own key, or a copy of one, with the key of that. Workers
    create it with the first backup."""

    __tablename__ = "backup_repositories"
    __table_args__ = (
        Index(
            "uq_backup_repositories_destination_id_account_id",
            "destination_id",
            "account_id",
            unique=True,
            sqlite_where=IS_NO_COPY,
            postgresql_where=IS_NO_COPY,
        ),
        Index("uq_backup_repositories_copy_of_id_destination_id", "copy_of_id", "destination_id", unique=True),
    )

    destination_id: Mapped[str] = mapped_column(ForeignKey("backup_destinations.id"))
    account_id: Mapped[str] = mapped_column(ForeignKey("accounts.id"), index=True)
    key: Mapped[str] = mapped_column(EncryptedText)
    """As `RepositoryKey.to_text` exports it."""
    copy_of_id: Mapped[str | None] = mapped_column(String(36))
    """The repository of which it has copies. Plain text, because that may be deleted."""
    initialized_at: Mapped[datetime | None]
    """When a worker created it in the destination."""
    collected_at: Mapped[datetime | None]
    """When its last garbage collection began."""
    sampled_at: Mapped[datetime | None]
    """When the last verification began, of a sample or of everything."""
    verified_at: Mapped[datetime | None]
    """When the last verification of everything began."""

    destination: Mapped[BackupDestination] = relationship()
    account: Mapped[Account] = relationship()

    @property
    def name(self) -> str:
        return self.destination.name
