"""Running policies and jobs: request the backups that are due, count failures, and delete what is not retained."""

from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, Select, exists, or_, select

from panel.core import clock
from panel.core.db import session
from panel.core.errors import Problem
from panel.models import Account, BackupPolicy, BackupPolicyInstance, Instance, InstanceBackup
from panel.services import instance_backups, managed_backups
from panel.services.backup_policies.retention import select_retained
from panel.services.backup_policies.schedule import schedule_next_run
from panel.services.instance_backups.create import CHAIN_LENGTH

MAX_RUNS_PER_TURN = 100
MAX_INSTANCES_PER_TURN = 200
"""So many instances are handled in one transaction. The rest of a run follows in the next turn."""
SLOT = timedelta(hours=1)
"""A job leaves an instance out that is backed up automatically within this time before or after it."""
SKIPPED_REASONS = ("not_deployed", "suspended")
"""Reasons for which an instance is left out: that is no failure."""


def select_due() -> Select[BackupPolicy]:
    """Select the policies that are due, the longest first, and weekly ones before daily ones: in the same slot the
    rarer job makes the backup."""
    query = select(BackupPolicy).where(BackupPolicy.enabled, BackupPolicy.next_run_at <= clock.now())
    query = query.order_by(BackupPolicy.next_run_at, BackupPolicy.full_backup_frequency.desc())
    return query.limit(MAX_RUNS_PER_TURN).with_for_update(of=BackupPolicy, skip_locked=True)


def follow_time_zones() -> None:
    """Compute the next run of policies again whose accounts have changed their time zone."""
    query = select(BackupPolicy, Account.timezone).join(Account, Account.id == BackupPolicy.account_id)
    for policy, timezone in session.execute(query.where(Account.timezone != BackupPolicy.timezone)):
        policy.timezone = timezone
        schedule_next_run(policy, clock.now())


def run(policy: BackupPolicy, limit: int = MAX_INSTANCES_PER_TURN) -> int:
    """Request backups of at most `limit` instances of the policy; return how many were handled. With the last ones the
    run has finished: the next one is computed, and runs that were missed are not made up for."""
    now = clock.now()
    if policy.run_position is None:
        policy.last_run_at = now
    query = select_covered(policy, now).where(Instance.id > (policy.run_position or ""))
    instances = session.scalars(query.order_by(Instance.id).limit(limit)).all()
    for instance in instances:
        request_backup(policy, instance, now)
    if len(instances) == limit:
        policy.run_position = instances[-1].id
    else:
        schedule_next_run(policy, now)
    return len(instances)


def select_covered(policy: BackupPolicy, now: datetime) -> Select[Instance]:
    """Select the instances that the policy backs up now."""
    query = select(Instance).where(Instance.suspended_reason.is_(None), ~is_backup_open())
    if policy.group_id is None:
        query = query.join(BackupPolicyInstance, BackupPolicyInstance.instance_id == Instance.id)
        return query.where(BackupPolicyInstance.policy_id == policy.id)
    query = query.where(Instance.group_id == policy.group_id, ~is_slot_taken(now))
    return query.where(Instance.hypervisor_id == policy.hypervisor_id) if policy.hypervisor_id else query


def is_backup_open() -> ColumnElement[bool]:
    """Return whether a policy's or job's backup of the instance is being made: another one would be the same."""
    return exists().where(
        InstanceBackup.instance_id == Instance.id,
        InstanceBackup.volume_id.is_(None),
        InstanceBackup.policy_id.is_not(None),
        InstanceBackup.status == "creating",
    )


def is_slot_taken(now: datetime) -> ColumnElement[bool]:
    """Return whether a policy or another job has just made a backup of the instance, or its own policy soon does."""
    has_backup = exists().where(
        InstanceBackup.instance_id == Instance.id,
        InstanceBackup.policy_id.is_not(None),
        InstanceBackup.status == "complete",
        InstanceBackup.created_at > now - SLOT,
    )
    is_due_soon = (
        exists()
        .where(BackupPolicyInstance.instance_id == Instance.id, BackupPolicy.next_run_at <= now + SLOT)
        .where(BackupPolicy.id == BackupPolicyInstance.policy_id)
    )
    return or_(has_backup, is_due_soon)


def request_backup(policy: BackupPolicy, instance: Instance, now: datetime) -> None:
    backup_type = choose_type(policy, instance)
    try:
        with session.begin_nested():
            instance_backups.create(
                instance,
                actor=f"backup {'job' if policy.group_id else 'policy'} {policy.name}",
                name=f"{policy.name} {now:%Y-%m-%d %H:%M}",
                backup_type=backup_type,
                full_read_reason=CHAIN_LENGTH if backup_type == "full" else None,
                backup_device=policy.backup_device,
                policy_id=policy.id,
                destination_id=policy.destination_id,
                managed_group_id=managed_backups.find_group_id(policy, instance),
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
