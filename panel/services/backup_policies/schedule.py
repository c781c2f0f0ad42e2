"""When a policy runs next, in its time zone."""

from datetime import UTC, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from panel.models import BackupPolicy
from panel.schemas.backup_jobs import WEEKDAYS

DAYS_PER_WEEK = 7


def find_zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError):
        return ZoneInfo("UTC")


def parse_schedule(text: str) -> dict[str, Any]:
    """Return the fields of a policy for `02:00` (daily) or `sun 02:00` (weekly)."""
    *weekday, time_of_day = text.lower().split()
    return {
        "full_backup_frequency": "weekly" if weekday else "daily",
        "full_backup_time": time_of_day,
        "full_backup_day": WEEKDAYS.index(weekday[0]) if weekday else None,
    }


def schedule_next_run(policy: BackupPolicy, after: datetime) -> None:
    """Set the next run later than `after`. A run under way ends."""
    policy.next_run_at, policy.run_position = find_next_run(policy, after), None


def find_next_run(policy: BackupPolicy, after: datetime) -> datetime:
    """Return the first run later than `after`."""
    weekday = None if policy.full_backup_frequency == "daily" else policy.full_backup_day
    return find_next_time(policy.timezone, policy.full_backup_time, weekday, after)


def find_next_time(timezone: str, time_of_day: str, weekday: int | None, after: datetime) -> datetime:
    """Return the first moment later than `after` with this time of day, on this day of the week (0 is Sunday) or any.

    A local time that a change to daylight saving skips is replaced by the same time at the earlier offset, one hour
    later on the clock. One that occurs twice is used the first time only.
    """
    zone, moment = find_zone(timezone), time.fromisoformat(time_of_day)
    day = after.astimezone(zone).date()
    while True:
        run = datetime.combine(day, moment, zone).astimezone(UTC)
        if run > after and weekday in (None, day.isoweekday() % DAYS_PER_WEEK):
            return run
        day += timedelta(days=1)
