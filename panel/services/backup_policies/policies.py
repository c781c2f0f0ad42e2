"""Create, find, change and delete backup policies."""

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import Select, select
from sqlalchemy import update as update_rows
from sqlalchemy.orm import joinedload

from panel.core import clock
from panel.core.db import session
from panel.core.errors import Conflict, Invalid, NotFound
from panel.core.messages import message
from panel.models import Account, BackupPolicy, HypervisorGroup
from panel.schemas.backup_policies import KEEP_RULES
from panel.services.access import Access
from panel.services.backup_policies.schedule import schedule_next_run
from panel.services.search_kinds import customer_name_search, platform_search, select_by_name

SCHEDULE_FIELDS = {"full_backup_frequency", "full_backup_time", "full_backup_day", "enabled"}
PLAN_FIELDS = (
    "full_backup_frequency",
    "full_backup_time",
    "full_backup_day",
    "max_incremental_chain",
    "backup_device",
    "retention_mode",
    "retention_count",
    *KEEP_RULES,
    "destination_id",
)
"""What a job has from its plan."""
IS_PLATFORM_POLICY = BackupPolicy.account_id.is_(None) & BackupPolicy.group_id.is_(None)
PLAN_IN_USE_MESSAGE = message("Backup jobs of locations follow this plan. Change or delete them first.")


def listing(
    account: Access | Account | None = None, *, search: str = "", is_platform: bool | None = None
) -> Select[BackupPolicy]:
    """Select policies by name: an account's own, or all for operators; only those of the platform or of customers with
    `is_platform`. Backup jobs are not among them."""
    query = select(BackupPolicy).where(BackupPolicy.group_id.is_(None)).order_by(BackupPolicy.name, BackupPolicy.id)
    if is_platform is not None:
        query = query.where(BackupPolicy.account_id.is_(None).is_(is_platform))
    if search:
        owners = BackupPolicy.account.has(Account.email.icontains(search, autoescape=True))
        query = query.where(BackupPolicy.name.icontains(search, autoescape=True) | owners)
    if account is None:
        return query.options(joinedload(BackupPolicy.account))
    return query.where(account.visible_rows(BackupPolicy))


def select_usable_names(account_id: str) -> Select[str, str]:
    """Select the id and name of the policies to which an instance of the account can be attached."""
    is_usable = IS_PLATFORM_POLICY | (BackupPolicy.account_id == account_id)
    return select(BackupPolicy.id, BackupPolicy.name).where(is_usable).order_by(BackupPolicy.name)


def select_platform_names() -> Select[str, str]:
    """Select the id and name of the platform's policies, for a choice field."""
    query = select(BackupPolicy.id, BackupPolicy.name).where(IS_PLATFORM_POLICY)
    return query.order_by(BackupPolicy.name)


def get(policy_id: str, account: Access | Account | None = None) -> BackupPolicy:
    policy = session.scalar(listing(account).where(BackupPolicy.id == policy_id))
    if policy is None:
        raise NotFound(message("No such backup policy."))
    return policy


def map_names(ids: Iterable[str]) -> dict[str, str]:
    """Return the names of these policies, as far as they exist."""
    policy_ids = set(ids)
    if not policy_ids:
        return {}
    rows = session.execute(select(BackupPolicy.id, BackupPolicy.name).where(BackupPolicy.id.in_(policy_ids)))
    return {policy_id: name for policy_id, name in rows}


def create(account: Access | Account | None, *, timezone: str = "UTC", **values: Any) -> BackupPolicy:
    """Create a policy of the account, or of the platform."""
    policy = build(timezone=timezone, **values)
    policy.account_id = account.id if account else None
    session.add(policy)
    session.flush()
    return policy


def build(*, timezone: str, **values: Any) -> BackupPolicy:
    """Return a policy that is not stored. Raise Invalid when its values do not fit together."""
    policy = BackupPolicy(timezone=timezone, **replace_nulls(values))
    ensure_valid(policy)
    schedule_next_run(policy, clock.now())
    return policy


def replace_nulls(values: Mapping[str, Any]) -> dict[str, Any]:
    """Replace null by 0 where it turns a rule off."""
    return {name: (value or 0) if name in KEEP_RULES else value for name, value in values.items()}


def update(policy: BackupPolicy, **changes: Any) -> BackupPolicy:
    """Change a policy, and the jobs that follow it. With another schedule the next run is computed again."""
    for name, value in replace_nulls(changes).items():
        setattr(policy, name, value)
    with session.no_autoflush:
        ensure_valid(policy)
    if changes.keys() & SCHEDULE_FIELDS:
        schedule_next_run(policy, clock.now())
    for job in policy.jobs:
        update(job, **{name: value for name, value in changes.items() if name in PLAN_FIELDS})
    session.flush()
    return policy


def ensure_valid(policy: BackupPolicy) -> None:
    """Raise Invalid when fields do not fit together. Forget the day of a daily policy."""
    if policy.full_backup_frequency == "daily":
        policy.full_backup_day = None
    elif policy.full_backup_day is None:
        raise refuse_field("full_backup_day", message("Choose the day of weekly backups."))
    if policy.retention_mode == "count" and policy.retention_count is None:
        raise refuse_field("retention_count", message("Say how many backups are retained."))
    if policy.retention_mode == "gfs" and not any(getattr(policy, rule) for rule in KEEP_RULES):
        raise refuse_field("keep_last", message("At least one of the rules must be above 0."))


def refuse_field(field: str, sentence: str) -> Invalid:
    return Invalid(sentence, **{field: sentence})


def delete(policy: BackupPolicy) -> None:
    """Delete a policy or job. Instances are detached; backups that it requested stay. Raise `plan_in_use` while jobs
    follow it."""
    if policy.jobs:
        raise Conflict(PLAN_IN_USE_MESSAGE, reason="plan_in_use")
    groups = update_rows(HypervisorGroup).where(HypervisorGroup.default_backup_policy_id == policy.id)
    session.execute(groups.values(default_backup_policy_id=None))
    session.delete(policy)
    session.flush()


def reset_failures(policy: BackupPolicy) -> BackupPolicy:
    policy.failures, policy.last_error = 0, None
    session.flush()
    return policy


@customer_name_search("backup_policy", "backup policies", permission="backup_policies.view", position=27)
def select_own_by_name(access: Access, search: str) -> Select[str, str, str | None]:
    return select_by_any_name(search).where(access.visible_rows(BackupPolicy))


@platform_search("backup_policy", permission="admin:instances:read", position=76)
def select_by_any_name(text: str) -> Select[str, str, str | None]:
    query = select_by_name(BackupPolicy, BackupPolicy.name, BackupPolicy.comment, text)
    return query.where(BackupPolicy.group_id.is_(None))
