"""Store and read how full each storage was over time: what its hypervisor reported, and what was allocated of it."""

from typing import Any

from sqlalchemy import Row, insert, select

from panel.core import clock
from panel.core.db import session
from panel.models import Storage, StorageMetric
from panel.models.metrics import STORAGE_SLOTS_BY_STEP
from panel.services.metrics.read import load_series, make_time
from panel.services.metrics.ring_buffer import INSERT_BY_DIALECT, compute_slot

BYTES_PER_MIB, MIB_PER_GIB = 1024**2, 1024
STORAGE_TIME_RANGES = {
    "1d": (86400, 900),
    "1w": (604800, 3600),
    "30d": (30 * 86400, 86400),
    "1y": (365 * 86400, 86400),
}
"""How far back a chart reaches and how long each of its steps is, in seconds."""

columns = StorageMetric.__table__.c
VALUE_NAMES = ("at", "capacity", "used_space", "allocated")


def record_storages(hypervisor_id: str) -> None:
    """Store the present values of a hypervisor's storages in every step. The last ones of a step stay. One query and
    one statement, which may be repeated."""
    at = clock.now().timestamp()
    query = select(Storage.id, Storage.capacity, Storage.free, Storage.allocated)
    rows = [
        {"storage_id": row.id, **slot, **make_values(row)}
        for row in session.execute(query.where(Storage.hypervisor_id == hypervisor_id, Storage.capacity > 0))
        for slot in (compute_slot(step, at, STORAGE_SLOTS_BY_STEP) for step in STORAGE_SLOTS_BY_STEP)
    ]
    if not rows:
        return
    table = StorageMetric.__table__
    statement: Any = INSERT_BY_DIALECT.get(session.get_bind().dialect.name, insert)(table)
    new = {name: statement.excluded[name] for name in VALUE_NAMES}
    statement = statement.on_conflict_do_update(index_elements=list(table.primary_key), set_=new)
    session.connection().execute(statement, rows)


def make_values(row: Row) -> dict[str, float]:
    return {
        "capacity": row.capacity / BYTES_PER_MIB,
        "used_space": (row.capacity - row.free) / BYTES_PER_MIB,
        "allocated": (row.allocated or 0) * MIB_PER_GIB,
    }


def get_storage_series(storage: Storage, time_range: str) -> dict[str, Any]:
    """Return the values of a storage, oldest first, like the series of an instance. One query."""
    point_columns = [columns[name] for name in VALUE_NAMES]
    series = load_series(point_columns, columns.storage_id == storage.id, time_range, STORAGE_TIME_RANGES)
    points = [
        row._asdict() | {"at": make_time(row.at), "used_space_max": row.used_space, "allocated_max": row.allocated}
        for row in series["points"]
    ]
    return series | {"points": points}
