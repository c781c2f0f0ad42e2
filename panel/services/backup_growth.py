"""How fast backup destinations grow, from what they had at the end of each day."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, timedelta

from sqlalchemy import delete, select

from panel.core import clock
from panel.core.db import session
from panel.models import BackupDestination, BackupDestinationSize
from panel.models.backup_destinations import INSTANCE_BACKUPS
from panel.services import backup_destinations
from panel.services.capacity_forecast import MIN_HISTORY_DAYS, compute_daily_growth

RETENTION_DAYS = 400
GROWTH_DAYS = 28
"""How many days the growth is computed from."""
MAX_FORECAST_DAYS = 730
"""A destination that is full later than this has no forecast."""
DAYS_PER_WEEK = 7


@dataclass
class DestinationGrowth:
    """The sizes of one destination: bytes of each day from the first that is stored until today, None for days without
    a size."""

    sizes: list[int | None]
    is_used_space: bool
    """Whether they are what is in use there, by whomever; else what backups and copies have added."""
    weekly: int | None
    """Bytes by which it grows in a week; None when that is not known yet."""
    days_left: int | None
    """When it is full, where its capacity is known and it grows."""


def record_sizes() -> None:
    """Store what each destination has now as the state of the current day."""
    today = clock.now().date()
    destinations = session.scalars(select(BackupDestination).where(BackupDestination.purpose == INSTANCE_BACKUPS)).all()
    contents = backup_destinations.count_contents(row.id for row in destinations)
    for row in destinations:
        values = {"destination_id": row.id, "day": today, "stored_bytes": contents[row.id].size}
        if row.status == "available":  # otherwise an earlier size of the day stays
            values["used_bytes"] = get_used(row)
        session.merge(BackupDestinationSize(**values))
    oldest = today - timedelta(days=RETENTION_DAYS)
    session.execute(delete(BackupDestinationSize).where(BackupDestinationSize.day < oldest))


def get_used(destination: BackupDestination) -> int | None:
    if destination.capacity is None or destination.free is None:
        return None
    return destination.capacity - destination.free


def map_growth(destinations: Iterable[BackupDestination], days: int = RETENTION_DAYS) -> dict[str, DestinationGrowth]:
    """Return the sizes of the last days of each destination that has some, by its id. One query."""
    rows_by_id = {row.id: row for row in destinations}
    table, today = BackupDestinationSize, clock.now().date()
    query = select(table.destination_id, table.day, table.stored_bytes, table.used_bytes).where(
        table.destination_id.in_(rows_by_id), table.day > today - timedelta(days=days), table.day <= today
    )
    history: dict[str, list[tuple[date, int, int | None]]] = {}
    for row_id, day, stored, used in session.execute(query.order_by(table.destination_id, table.day)):
        history.setdefault(row_id, []).append((day, stored, used))
    return {row_id: compute_growth(rows_by_id[row_id], rows, today) for row_id, rows in history.items()}


def compute_growth(
    destination: BackupDestination, rows: list[tuple[date, int, int | None]], today: date
) -> DestinationGrowth:
    used = get_used(destination)
    is_used_space = used is not None
    if destination.status != "available":  # its capacity is not known now
        is_used_space = any(of_all is not None for _, _, of_all in rows)
    sizes = {day: of_all if is_used_space else stored for day, stored, of_all in rows}
    recent = [(day, size) for day, size in sizes.items() if size is not None and (today - day).days < GROWTH_DAYS]
    daily = compute_daily_growth(recent) if len(recent) >= MIN_HISTORY_DAYS else None
    days_left = None
    if used is not None and destination.capacity is not None and daily and daily > 0:
        left = max(0, destination.capacity - used) / daily
        days_left = int(left) if left <= MAX_FORECAST_DAYS else None
    first = rows[0][0]
    return DestinationGrowth(
        sizes=[sizes.get(first + timedelta(days=number)) for number in range((today - first).days + 1)],
        is_used_space=is_used_space,
        weekly=None if daily is None else round(daily * DAYS_PER_WEEK),
        days_left=days_left,
    )
