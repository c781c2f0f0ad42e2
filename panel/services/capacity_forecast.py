"""When a location or a storage is full at its present growth, from its values at the end of each day."""

from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta

from sqlalchemy import delete, select

from panel.core import clock
from panel.core.db import session
from panel.models import LocationAllocation, Storage, StorageMetric
from panel.services import overview

HISTORY_DAYS = 14
"""How many days the growth is computed from."""
MIN_HISTORY_DAYS = 4
"""Fewer days than this tell nothing about the growth."""
MAX_FORECAST_DAYS = 180
"""What is full later than this has no forecast."""
RETENTION_DAYS = 60
SECONDS_PER_DAY = 86400
RESOURCES = {
    "cpu_cores": ("cpu_allocated", "cpu_cores"),
    "ram": ("ram_allocated", "ram"),
    "storage": ("storage_allocated", "storage"),
    "addresses": ("addresses_allocated", "addresses"),
}
"""Each column of `LocationAllocation`, with the attributes of a `LocationCapacity`: allocated and total."""


def record_allocations() -> None:
    """Store what is allocated of each location now as the state of the current day."""
    today = clock.now().date()
    for capacity in overview.list_capacities():
        allocated = {name: int(getattr(capacity, used) or 0) for name, (used, _) in RESOURCES.items()}
        session.merge(LocationAllocation(group_id=capacity.group.id, day=today, **allocated))
    session.execute(delete(LocationAllocation).where(LocationAllocation.day < today - timedelta(days=RETENTION_DAYS)))


def list_days_left(capacities: Iterable[overview.LocationCapacity]) -> dict[tuple[str, str], int]:
    """Return after how many days each resource that grows is full, by (id of the location, resource). One query."""
    today = clock.now().date()
    query = select(LocationAllocation).where(
        LocationAllocation.day > today - timedelta(days=HISTORY_DAYS), LocationAllocation.day <= today
    )
    history: dict[str, list[LocationAllocation]] = {}
    for row in session.scalars(query.order_by(LocationAllocation.day)):
        history.setdefault(row.group_id, []).append(row)
    forecasts = {}
    for capacity in capacities:
        rows = history.get(capacity.group.id, [])
        for name, (used, total) in RESOURCES.items():
            free = (getattr(capacity, total) or 0) - (getattr(capacity, used) or 0)
            days = compute_days_left([(row.day, getattr(row, name)) for row in rows], free)
            if days is not None:
                forecasts[capacity.group.id, name] = days
    return forecasts


def list_storage_days_left(storages: Iterable[Storage]) -> dict[tuple[str, str], int]:
    """Return after how many days each storage is full, by (id, `used_space` or `allocated`), if it grows. One query."""
    now = clock.now().timestamp()
    rows_by_id = {storage.id: storage for storage in storages}
    query = select(StorageMetric).where(
        StorageMetric.storage_id.in_(rows_by_id),
        StorageMetric.step == SECONDS_PER_DAY,
        StorageMetric.at > now - HISTORY_DAYS * SECONDS_PER_DAY,
        StorageMetric.at <= now,
    )
    history: dict[str, list[StorageMetric]] = {}
    for row in session.scalars(query.order_by(StorageMetric.at)):
        history.setdefault(row.storage_id, []).append(row)
    forecasts = {}
    for storage_id, rows in history.items():
        newest, overcommit = rows[-1], rows_by_id[storage_id].overcommit
        dates = [datetime.fromtimestamp(row.at, UTC).date() for row in rows]
        for name, total in (("used_space", newest.capacity), ("allocated", newest.capacity * overcommit)):
            values = [getattr(row, name) for row in rows]
            days = compute_days_left(list(zip(dates, values, strict=True)), total - values[-1])
            if days is not None:
                forecasts[storage_id, name] = days
    return forecasts


def compute_days_left(days: Sequence[tuple[date, float]], free: float) -> int | None:
    """Return after how many days nothing is free at the growth of these days; None when that is long or never."""
    growth = compute_daily_growth(days)
    return int(free / growth) if growth > 0 and 0 <= free <= growth * MAX_FORECAST_DAYS else None


def compute_daily_growth(days: Sequence[tuple[date, float]]) -> float:
    """Return the slope of the straight line that fits the values best; 0 with too few days."""
    if len(days) < MIN_HISTORY_DAYS:
        return 0.0
    numbers = [day.toordinal() for day, _ in days]
    mean_day, mean_value = sum(numbers) / len(days), sum(value for _, value in days) / len(days)
    variance = sum((number - mean_day) ** 2 for number in numbers)
    pairs = zip(numbers, (value for _, value in days), strict=True)
    return sum((number - mean_day) * (value - mean_value) for number, value in pairs) / variance
