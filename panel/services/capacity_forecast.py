"""When a location is full at its present growth, from what was allocated of it at the end of each day."""

from collections.abc import Iterable, Sequence
from datetime import date, timedelta

from sqlalchemy import delete, select

from panel.core import clock
from panel.core.db import session
from panel.models import LocationAllocation
from panel.services import overview

HISTORY_DAYS = 14
"""How many days the growth is computed from."""
MIN_HISTORY_DAYS = 4
"""Fewer days than this tell nothing about the growth."""
MAX_FORECAST_DAYS = 180
"""A location that is full later than this has no forecast."""
RETENTION_DAYS = 60
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
            growth = compute_daily_growth([(row.day, getattr(row, name)) for row in rows])
            free = (getattr(capacity, total) or 0) - (getattr(capacity, used) or 0)
            if growth > 0 and 0 <= free <= growth * MAX_FORECAST_DAYS:
                forecasts[capacity.group.id, name] = int(free / growth)
    return forecasts


def compute_daily_growth(days: Sequence[tuple[date, int]]) -> float:
    """Return the slope of the straight line that fits the values best; 0 with too few days."""
    if len(days) < MIN_HISTORY_DAYS:
        return 0.0
    numbers = [day.toordinal() for day, _ in days]
    mean_day, mean_value = sum(numbers) / len(days), sum(value for _, value in days) / len(days)
    variance = sum((number - mean_day) ** 2 for number in numbers)
    pairs = zip(numbers, (value for _, value in days), strict=True)
    return sum((number - mean_day) * (value - mean_value) for number, value in pairs) / variance
