"""Which backups of a policy are retained."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, Protocol

from panel.models import BackupPolicy
from panel.services.backup_policies.schedule import find_zone

PERIODS: dict[str, Callable[[datetime], Any]] = {
    "keep_daily": lambda local: local.date(),
    "keep_weekly": lambda local: local.isocalendar()[:2],
    "keep_monthly": lambda local: (local.year, local.month),
    "keep_yearly": lambda local: local.year,
}
"""The period of a local time, for each rule that retains the last backup of a period."""


class RetainedBackup(Protocol):
    """What retention needs to know of a backup."""

    id: str
    created_at: datetime
    disks: list[dict[str, Any]]


def select_retained(policy: BackupPolicy, backups: Iterable[RetainedBackup], now: datetime) -> set[str]:
    """Return the ids of the backups that the policy retains. Protected ones do not count: they are not among these."""
    newest_first = sorted(backups, key=lambda backup: (backup.created_at, backup.id), reverse=True)
    if policy.retention_mode == "count":
        return select_by_count(newest_first, policy.retention_count)
    return select_by_periods(policy, newest_first, now)


def select_by_count(backups: Sequence[RetainedBackup], count: int | None) -> set[str]:
    """Return the newest `count` backups of each disk."""
    retained: set[str] = set()
    counts: dict[str, int] = {}
    for backup in backups:
        for disk in backup.disks:
            counts[disk["id"]] = counts.get(disk["id"], 0) + 1
            if counts[disk["id"]] <= (count or 1):
                retained.add(backup.id)
    return retained


def select_by_periods(policy: BackupPolicy, backups: Sequence[RetainedBackup], now: datetime) -> set[str]:
    """Return what one of the rules selects. A period without backups does not count."""
    retained = {backup.id for backup in backups[: policy.keep_last]}
    since = now - timedelta(days=policy.keep_within_days)
    retained |= {backup.id for backup in backups if policy.keep_within_days and backup.created_at >= since}
    zone = find_zone(policy.timezone)
    for rule, find_period in PERIODS.items():
        last_of_period: dict[Any, str] = {}
        for backup in backups:
            last_of_period.setdefault(find_period(backup.created_at.astimezone(zone)), backup.id)
        retained |= set(list(last_of_period.values())[: getattr(policy, rule)])
    return retained
