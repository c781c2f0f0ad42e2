"""What micro VMs use, as nodes report it: the latest figures of each, without a history."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import bindparam, update

from panel.core import clock
from panel.core.db import session
from panel.models import Microvm

MAX_USAGE_AGE_SECONDS = 90
"""Seconds after which figures no longer count as live."""
MAX_ROWS_PER_STATEMENT = 500


@dataclass(frozen=True)
class Usage:
    """The live figures of a running micro VM."""

    at: datetime
    cpu_percent: float
    """Of all its cores."""
    memory_used: float
    """MiB."""
    disk_read_bytes: float
    disk_write_bytes: float
    disk_read_iops: float
    disk_write_iops: float
    """A second."""


columns = Microvm.__table__.c
WRITE_USAGE = (
    update(Microvm.__table__)
    .where(columns.id == bindparam("microvm_id"))
    .values(usage=bindparam("new_usage"), updated_at=columns.updated_at)
)


def write_usages(usages: Mapping[str, Mapping[str, Any]]) -> None:
    """Store the figures of many micro VMs, by id. Flushes nothing else of the rows."""
    rows = [{"microvm_id": microvm_id, "new_usage": usage} for microvm_id, usage in sorted(usages.items())]
    for start in range(0, len(rows), MAX_ROWS_PER_STATEMENT):
        session.connection().execute(WRITE_USAGE, rows[start : start + MAX_ROWS_PER_STATEMENT])


def find(microvm: Microvm) -> Usage | None:
    """Return the figures of a running micro VM; None while there are none."""
    usage = microvm.usage
    if microvm.state != "running" or not usage:
        return None
    at = datetime.fromtimestamp(usage["at"], UTC)
    if (clock.now() - at).total_seconds() > MAX_USAGE_AGE_SECONDS:
        return None
    names = Usage.__dataclass_fields__.keys() - {"at"}
    return Usage(at=at, **{name: usage[name] for name in names})
