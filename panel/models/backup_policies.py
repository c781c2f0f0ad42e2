"""Backup policies: when the instances attached to them are backed up, and which of these backups are retained."""

from datetime import datetime
from types import SimpleNamespace

from sqlalchemy import ForeignKey, Index, String, select
from sqlalchemy.orm import Mapped, column_property, mapped_column, relationship

from panel.core.db import MessageText, Model, TimestampMixin
from panel.models.accounts import Account
from panel.models.backup_destinations import BackupDestination
from panel.models.hypervisors import Hypervisor, HypervisorGroup
from panel.models.instances import Instance
from panel.schemas.backup_jobs import BACKUP_JOB_MODES, COMPRESSIONS, WEEKDAYS
from panel.schemas.backup_policies import KEEP_RULES


class BackupPolicy(TimestampMixin, Model):
    """A policy of an account, or of the platform for instances of any account, or a backup job of a hypervisor group.

    Instances are attached to a policy. A job covers all that are in its group, or on one of its hypervisors.
    """

    __tablename__ = "backup_policies"
    live_permissions = ("backup_policies.view", "admin:instances:read")
    __table_args__ = (
        Index("ix_backup_policies_account_id_name_id", "account_id", "name", "id"),
        Index("ix_backup_policies_group_id_name_id", "group_id", "name", "id"),
    )

    account_id: Mapped[str | None] = mapped_column(ForeignKey("accounts.id", ondelete="cascade"))
    group_id: Mapped[str | None] = mapped_column(ForeignKey("hypervisor_groups.id", ondelete="cascade"))
    """The group of a job; None for policies."""
    hypervisor_id: Mapped[str | None] = mapped_column(ForeignKey("hypervisors.id", ondelete="cascade"), index=True)
    """The only hypervisor that the job covers; None for all of its group."""
    plan_id: Mapped[str | None] = mapped_column(ForeignKey("backup_policies.id"), index=True)
    """The platform's policy whose schedule, retention and destination the job has, also after changes."""
    destination_id: Mapped[str | None] = mapped_column(ForeignKey("backup_destinations.id"), index=True)
    """Where its backups are stored; None for the first destination of the hypervisor."""
    enabled: Mapped[bool] = mapped_column(default=True)
    comment: Mapped[str] = mapped_column(default="")
    name: Mapped[str]
    full_backup_frequency: Mapped[str] = mapped_column(String(16))
    """`daily` or `weekly`: how often a backup is made."""
    full_backup_time: Mapped[str] = mapped_column(String(5))
    """HH:MM in `timezone`."""
    full_backup_day: Mapped[int | None]
    """The day of a weekly backup: 0 is Sunday."""
    timezone: Mapped[str] = mapped_column(String(64), default="UTC")
    """The account's time zone, for which `next_run_at` was computed."""
    max_incremental_chain: Mapped[int]
    """After so many incremental backups everything is read."""
    backup_device: Mapped[str] = mapped_column(String(16))
    retention_mode: Mapped[str] = mapped_column(String(16))
    retention_count: Mapped[int | None]
    keep_last: Mapped[int]
    keep_within_days: Mapped[int]
    keep_daily: Mapped[int]
    keep_weekly: Mapped[int]
    keep_monthly: Mapped[int]
    keep_yearly: Mapped[int]
    failures: Mapped[int] = mapped_column(default=0)
    """Failed backups since the last success or reset."""
    last_error: Mapped[str | None] = mapped_column(MessageText)
    last_run_at: Mapped[datetime | None]
    next_run_at: Mapped[datetime] = mapped_column(index=True)
    run_position: Mapped[str | None] = mapped_column(String(36))
    """The last instance that the run under way has handled; None when it begins and when it has finished."""

    account: Mapped[Account | None] = relationship()
    group: Mapped[HypervisorGroup | None] = relationship()
    hypervisor: Mapped[Hypervisor | None] = relationship()
    destination: Mapped[BackupDestination | None] = relationship()
    plan: Mapped["BackupPolicy | None"] = relationship(remote_side="BackupPolicy.id", back_populates="jobs")
    jobs: Mapped[list["BackupPolicy"]] = relationship(
        back_populates="plan", order_by="BackupPolicy.name", passive_deletes="all"
    )
    """The jobs that follow this plan."""
    links: Mapped[list["BackupPolicyInstance"]] = relationship(
        back_populates="policy", cascade="all, delete-orphan", passive_deletes=True
    )

    @property
    def status(self) -> str:
        return "error" if self.failures else "active"

    @property
    def plan_name(self) -> str | None:
        return self.plan.name if self.plan else None

    @property
    def destination_name(self) -> str | None:
        return self.destination.name if self.destination else None

    @property
    def storage(self) -> str | None:
        return self.destination_id

    @property
    def schedule(self) -> str:
        """`02:00` for a daily one, `sun 02:00` for a weekly one."""
        day = self.full_backup_day
        return self.full_backup_time if day is None else f"{WEEKDAYS[day]} {self.full_backup_time}"

    @property
    def keep_rules(self) -> SimpleNamespace:
        return SimpleNamespace(**{rule: getattr(self, rule) for rule in KEEP_RULES})

    @property
    def planned_run_at(self) -> datetime | None:
        return self.next_run_at if self.enabled else None

    mode, compress = BACKUP_JOB_MODES[0], COMPRESSIONS[0]
    """How the backups of a job are made."""

    @property
    def target_type(self) -> str:
        """Which instances a job covers: `all` of its group, or those on a `hypervisor`."""
        return "hypervisor" if self.hypervisor_id else "all"

    @property
    def owner_email(self) -> str | None:
        return self.account.email if self.account else None


class BackupPolicyInstance(Model):
    """An instance is attached to a policy, at most to one."""

    __tablename__ = "backup_policy_instances"
    is_audit_part = True

    instance_id: Mapped[str] = mapped_column(ForeignKey("instances.id", ondelete="cascade"), primary_key=True)
    policy_id: Mapped[str] = mapped_column(ForeignKey("backup_policies.id", ondelete="cascade"), index=True)

    policy: Mapped[BackupPolicy] = relationship(back_populates="links")
    instance: Mapped[Instance] = relationship()


Instance.backup_policy_id = column_property(
    select(BackupPolicyInstance.policy_id)
    .where(BackupPolicyInstance.instance_id == Instance.id)
    .correlate(Instance)
    .scalar_subquery(),
    deferred=True,
)
"""The policy that it is attached to, or None."""
