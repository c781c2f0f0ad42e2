"""Running policies: request the backups that are due, count failures, and delete what is not retained."""

from sqlalchemy import Select, select

from panel.core import clock
from panel.core.db import session
from panel.core.errors import Problem
from panel.models import Account, BackupPolicy, BackupPolicyInstance, Instance, InstanceBackup
from panel.services import instance_backups
from panel.services.backup_policies.retention import select_retained
from panel.services.backup_policies.schedule import find_next_run

MAX_RUNS_PER_TURN = 100
SKIPPED_REASONS = ("not_deployed", "suspended")
"""Reasons for which an instance is left out: that is no failure."""


def select_due() -> Select[BackupPolicy]:
    query = select(BackupPolicy).where(BackupPolicy.next_run_at <= clock.now()).order_by(BackupPolicy.next_run_at)
    return query.limit(MAX_RUNS_PER_TURN).with_for_update(of=BackupPolicy, skip_locked=True)


def follow_time_zones() -> None:
    """Compute the next run of policies again whose accounts have changed their time zone."""
    query = select(BackupPolicy, Account.timezone).join(Account, Account.id == BackupPolicy.account_id)
    for policy, timezone in session.execute(query.where(Account.timezone != BackupPolicy.timezone)):
        policy.timezone = timezone
        policy.next_run_at = find_next_run(policy, clock.now())


def run(policy: BackupPolicy) -> None:
    """Request a backup of every instance of the policy. Runs that were missed are not made up for."""
    now = clock.now()
    policy.last_run_at, policy.next_run_at = now, find_next_run(policy, now)
    instances = select(Instance).join(BackupPolicyInstance, BackupPolicyInstance.instance_id == Instance.id)
    for instance in session.scalars(instances.where(BackupPolicyInstance.policy_id == policy.id)).all():
        if instance.suspended_reason:
            continue
        try:
            with session.begin_nested():
                instance_backups.create(
                    instance,
                    actor=f"backup policy {policy.name}",
                    name=f"{policy.name} {now:%Y-%m-%d %H:%M}",
                    backup_type=choose_type(policy, instance),
                    backup_device=policy.backup_device,
                    policy_id=policy.id,
                )
        except Problem as problem:
            if problem.reason not in SKIPPED_REASONS:
                record_failure(policy, problem.message)


def choose_type(policy: BackupPolicy, instance: Instance) -> str:
    """Return `full` when the chain of incremental backups is as long as it may be."""
    query = select(InstanceBackup.backup_type).where(
        InstanceBackup.policy_id == policy.id,
        InstanceBackup.instance_id == instance.id,
        InstanceBackup.status == "complete",
    )
    latest = session.scalars(query.order_by(InstanceBackup.id.desc()).limit(policy.max_incremental_chain)).all()
    is_chain_full = len(latest) >= policy.max_incremental_chain and all(kind == "incremental" for kind in latest)
    return "full" if is_chain_full else "incremental"


def record_failure(policy: BackupPolicy, error: str) -> None:
    """Count a failure. Which instance failed is not stored: not everybody who sees the policy may see that one."""
    policy.failures, policy.last_error = policy.failures + 1, error


def find_policy(backup: InstanceBackup) -> BackupPolicy | None:
    return session.get(BackupPolicy, backup.policy_id) if backup.policy_id else None


def on_backup_failed(backup: InstanceBackup, error: str) -> None:
    if policy := find_policy(backup):
        record_failure(policy, error)


def on_backup_complete(backup: InstanceBackup) -> None:
    """Reset the failures of the backup's policy, and delete what it does not retain of this instance."""
    if policy := find_policy(backup):
        policy.failures, policy.last_error = 0, None
        sweep(policy, backup.instance_id)


def sweep(policy: BackupPolicy, instance_id: str) -> None:
    """Request the deletion of the policy's backups of the instance that it does not retain. Protected ones stay, and
    so do those of others."""
    query = select(InstanceBackup).where(
        InstanceBackup.policy_id == policy.id,
        InstanceBackup.instance_id == instance_id,
        InstanceBackup.status == "complete",
        InstanceBackup.protected.is_(False),
        InstanceBackup.delete_claimed_at.is_(None),
    )
    backups = session.scalars(query).all()
    retained = select_retained(policy, backups, clock.now())
    for backup in backups:
        if backup.id not in retained and not backup.destination.has_managed_retention:
            try:
                with session.begin_nested():
                    instance_backups.claim(backup, actor=f"backup policy {policy.name}")
            except Problem:  # its storage is away: the next sweep deletes it
                continue
