"""When a policy runs next, in its time zone."""

from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from panel.models import BackupPolicy

DAYS_PER_WEEK = 7


def find_zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError):
        return ZoneInfo("UTC")


def find_next_run(policy: BackupPolicy, after: datetime) -> datetime:
    """Return the first run later than `after`.

    A local time that a change to daylight saving skips is replaced by the same time at the earlier offset, one hour
    later on the clock. One that occurs twice is used the first time only.
    """
    zone, moment = find_zone(policy.timezone), time.fromisoformat(policy.full_backup_time)
    day = after.astimezone(zone).date()
    while True:
        run = datetime.combine(day, moment, zone).astimezone(UTC)
        if run > after and is_run_day(policy, day.isoweekday() % DAYS_PER_WEEK):
            return run
        day += timedelta(days=1)


def is_run_day(policy: BackupPolicy, weekday: int) -> bool:
    """Return whether it runs on that day of the week: 0 is Sunday."""
    return policy.full_backup_frequency == "daily" or policy.full_backup_day == weekday
