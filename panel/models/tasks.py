"""Tasks. The row has the whole state; queue messages only notify workers."""

from datetime import datetime

from sqlalchemy import JSON, BigInteger, ColumnElement, ForeignKey, Index, String, Text, bindparam, literal_column, text
from sqlalchemy.orm import InstrumentedAttribute, Mapped, mapped_column, relationship

from panel.core import clock, messages
from panel.core.db import EncryptedText, MessageText, Model, TimestampMixin, UtcTime, generate_id

OPEN_STATUSES = ("pending", "queued", "running")


def is_open(status: InstrumentedAttribute[str]) -> ColumnElement[bool]:
    """Return the condition of the partial indexes as SQL, in the same words, so that databases use the indexes."""
    return status.in_(bindparam("open_statuses", OPEN_STATUSES, expanding=True, literal_execute=True))


def has_failed(status: InstrumentedAttribute[str]) -> ColumnElement[bool]:
    """Return the condition of the partial index of failed tasks as SQL, like `is_open`."""
    return status == literal_column("'failed'")


REBUILD_TASK_KINDS = (
    "instance_deploy",
    "instance_reinstall",
    "instance_destroy",
    "instance_self_deploy",
    "backup_restore_new",
)
"""Kinds of tasks during which an instance counts as pending."""
TRANSITION_TASK_KINDS = (
    *REBUILD_TASK_KINDS,
    "instance_start",
    "instance_stop",
    "instance_shutdown",
    "instance_poweroff",
    "instance_restart",
    "instance_suspend",
    "instance_unsuspend",
    "snapshot_rollback",
    "backup_restore",
    "backup_restore_revert",
)
"""Kinds of tasks that change the state of an instance, or what runs on it."""
BACKUP_TRANSFER_TASK_KINDS = (
    "backup_create",
    "backup_restore",
    "backup_restore_new",
    "volume_backup",
    "volume_backup_copy",
    "volume_backup_restore",
)
"""Kinds of tasks that copy disks between a node and a backup destination. A node runs a limited number of them."""
NOT_CANCELLABLE_TASK_KINDS = ("volume_delete",)
"""Kinds of tasks that were already reported as done, so they must be carried out."""


class Task(TimestampMixin, Model):
    """One task on one resource.

    An `exclusive` task is alone on its resource and a second one is refused; `final` (a deletion) is the same, but may
    wait behind an exclusive one; `storage` tasks run one at a time; `light` ones run concurrently. A task waits while a
    conflicting one of the same resource runs.
    """

    __tablename__ = "tasks"
    live_permissions = ("instances.view", "admin:tasks:read")
    __table_args__ = (
        Index(
            "uq_tasks_open_lock",
            "resource_id",
            "lock",
            unique=True,
            sqlite_where=text("lock in ('exclusive','final') and status in ('pending','queued','running')"),
            postgresql_where=text("lock in ('exclusive','final') and status in ('pending','queued','running')"),
        ),
        Index(
            "ix_tasks_open",
            "status",
            "queued_at",
            sqlite_where=text("status in ('pending','queued','running')"),
            postgresql_where=text("status in ('pending','queued','running')"),
        ),
        Index(
            "ix_tasks_open_resource_id",
            "resource_id",
            sqlite_where=text("status in ('pending','queued','running')"),
            postgresql_where=text("status in ('pending','queued','running')"),
        ),
        Index(
            "ix_tasks_rollback_pending",
            "hypervisor_id",
            sqlite_where=text("rollback_pending"),
            postgresql_where=text("rollback_pending"),
        ),
        Index(
            "ix_tasks_failed",
            "finished_at",
            sqlite_where=text("status = 'failed'"),
            postgresql_where=text("status = 'failed'"),
        ),
        Index("ix_tasks_resource_id_id", "resource_id", "id"),
        Index("ix_tasks_kind_id", "kind", "id"),
        Index("ix_tasks_account_id_id", "account_id", "id"),
        Index("ix_tasks_hypervisor_id_id", "hypervisor_id", "id"),
        Index("ix_tasks_hypervisor_id_status", "hypervisor_id", "status"),
    )

    kind: Mapped[str] = mapped_column(String(48))
    resource_type: Mapped[str] = mapped_column(String(32))
    resource_id: Mapped[str] = mapped_column(String(36))
    """Plain text, because a task outlives the resource that it deletes."""
    resource_name: Mapped[str] = mapped_column(default="")
    account_id: Mapped[str | None] = mapped_column(ForeignKey("accounts.id", ondelete="set null"))
    """The owner of the resource; empty for the platform's own tasks."""
    hypervisor_id: Mapped[str | None] = mapped_column(ForeignKey("hypervisors.id", ondelete="set null"))
    actor: Mapped[str] = mapped_column(default="system")
    """Who requested it: an email address, a token's name, `system`."""
    lock: Mapped[str] = mapped_column(String(16), default="light")
    status: Mapped[str] = mapped_column(String(16), default="queued")
    progress: Mapped[int] = mapped_column(default=0)
    stage: Mapped[str] = mapped_column(MessageText, default=messages.message("Queued"))
    bytes_done: Mapped[int | None] = mapped_column(BigInteger)
    bytes_total: Mapped[int | None] = mapped_column(BigInteger)
    bytes_per_second: Mapped[int | None] = mapped_column(BigInteger)
    """The rate of the transfer so far."""
    error: Mapped[str | None] = mapped_column(MessageText)
    error_detail: Mapped[str | None] = mapped_column(Text)
    error_class: Mapped[str | None] = mapped_column(String(64))
    """Name of the exception's class."""
    arguments: Mapped[dict] = mapped_column(JSON, default=dict)
    secret: Mapped[str | None] = mapped_column(EncryptedText)
    """A value that the task needs but nobody may read, such as a password; removed when the task ends."""
    rollback_steps: Mapped[list] = mapped_column(JSON, default=list)
    """Rollback steps, newest last. Each is stored before the step that it reverts."""
    rollback_pending: Mapped[bool] = mapped_column(default=False)
    """The task ended, but some rollback steps have not succeeded yet."""
    attempt: Mapped[int] = mapped_column(default=0)
    worker: Mapped[str | None] = mapped_column(String(64))
    heartbeat_at: Mapped[datetime | None]
    cancel_requested_at: Mapped[datetime | None]
    queued_at: Mapped[datetime] = mapped_column(default=clock.now)
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]
    source_backup_id: Mapped[str | None] = mapped_column(String(36))
    source_backup_at: Mapped[datetime | None]

    logs: Mapped[list["TaskLog"]] = relationship(order_by="TaskLog.id", passive_deletes=True)

    @property
    def open(self) -> bool:
        return self.status in OPEN_STATUSES

    @property
    def seconds_left(self) -> int | None:
        """How long the transfer will still take at its present rate; None without one."""
        if self.status != "running" or not self.bytes_per_second or self.bytes_total is None:
            return None
        return -(-(self.bytes_total - (self.bytes_done or 0)) // self.bytes_per_second)

    @property
    def own_source_backup_id(self) -> str | None:
        """The restored backup, unless it belongs to another account than the resource."""
        return None if self.arguments.get("is_foreign_backup") else self.source_backup_id

    @property
    def own_source_backup_at(self) -> datetime | None:
        return None if self.arguments.get("is_foreign_backup") else self.source_backup_at

    @property
    def cancellable(self) -> bool:
        return (
            self.open
            and self.cancel_requested_at is None
            and self.lock != "final"
            and (self.kind not in NOT_CANCELLABLE_TASK_KINDS)
        )

    @property
    def instance_id(self) -> str | None:
        return self.resource_id if self.resource_type == "instance" else None


class TaskLog(Model):
    """One log line of a task, for everybody who may see the task."""

    __tablename__ = "task_logs"
    is_audit_part = True
    __table_args__ = (Index("ix_task_logs_task_id_id", "task_id", "id"),)

    id: Mapped[str] = mapped_column(String(36), primary_key=True, default=generate_id)
    task_id: Mapped[str] = mapped_column(ForeignKey("tasks.id", ondelete="cascade"))
    at: Mapped[datetime] = mapped_column(UtcTime, default=clock.now)
    message: Mapped[str] = mapped_column(MessageText)
