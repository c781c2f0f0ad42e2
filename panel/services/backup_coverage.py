"""Which running instances lack a recent backup or a backup policy."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import TypeVar

from sqlalchemy import ColumnElement, Select, and_, exists, func, or_, select

from panel.core import clock
from panel.core.db import session
from panel.models import BackupPolicy, BackupPolicyInstance, HypervisorGroup, Instance, InstanceBackup

Query = TypeVar("Query", bound=Select)

DEFAULT_MAX_AGE_DAYS = 7
"""A backup that is older is not recent."""
COVERAGE_GAPS = ("overdue", "first_pending", "no_policy")
"""`overdue`: no recent backup in spite of a policy. `first_pending`: the same, but the instance is newer than that.
An instance that is not attached to the default policy of its location should have backups, too. `no_policy`: no policy
and no backup job covers it, and it is none of the others."""


def select_gap(query: Query, gap: str | None = None, *, days: int = DEFAULT_MAX_AGE_DAYS) -> Query:
    """Limit a select to running instances with this gap, or with any."""
    conditions = build_conditions(clock.now() - timedelta(days=days))
    condition = conditions[gap] if gap else or_(*conditions.values())
    return query.where(Instance.state == "running", condition)


def build_conditions(since: datetime) -> dict[str, ColumnElement[bool]]:
    is_covered = or_(exists().where(BackupPolicyInstance.instance_id == Instance.id), exists().where(covers_instance()))
    has_policy = or_(is_covered, Instance.group.has(HypervisorGroup.default_backup_policy_id.is_not(None)))
    has_backup = exists().where(*build_usable_conditions(), InstanceBackup.completed_at >= since)
    is_new = Instance.created_at >= since
    return {
        "overdue": and_(has_policy, ~has_backup, ~is_new),
        "first_pending": and_(has_policy, ~has_backup, is_new),
        "no_policy": and_(~is_covered, or_(~has_policy, has_backup)),
    }


def covers_instance() -> ColumnElement[bool]:
    """Return whether the row is an enabled backup job that covers the instance."""
    is_target = BackupPolicy.hypervisor_id.is_(None) | (BackupPolicy.hypervisor_id == Instance.hypervisor_id)
    return and_(BackupPolicy.group_id == Instance.group_id, BackupPolicy.enabled, is_target)


def build_usable_conditions() -> tuple[ColumnElement[bool], ...]:
    """Return the conditions of complete, intact backups of an instance that are its owner's and not being deleted."""
    return (
        InstanceBackup.instance_id == Instance.id,
        InstanceBackup.account_id == Instance.account_id,
        InstanceBackup.status == "complete",
        InstanceBackup.damaged.is_(False),
        InstanceBackup.missing_confirmed_at.is_(None),
        InstanceBackup.delete_claimed_at.is_(None),
    )


def map_newest_backups(instance_ids: Iterable[str]) -> dict[str, datetime]:
    """Return when the newest complete backup of each of the instances was made, for those that have one."""
    query = select(Instance.id, func.max(InstanceBackup.completed_at)).where(*build_usable_conditions())
    rows = session.execute(query.where(Instance.id.in_(list(instance_ids))).group_by(Instance.id))
    return {instance_id: completed_at for instance_id, completed_at in rows if completed_at}


def count_overdue() -> int:
    return session.scalars(select_gap(select(func.count(Instance.id)), "overdue")).one()
