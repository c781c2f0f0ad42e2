"""What guests of micro VMs report: entries of their logs and samples of their load.

The router of sandboxes records them, many at once. Both are limited for each micro VM, and deleted when it ends.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from redis import RedisError
from sqlalchemy import Select, delete, func, insert, or_, select

from panel.core import clock, context
from panel.core.db import session
from panel.models import Microvm, MicrovmGuestSample, MicrovmLogEntry
from panel.schemas.microvm_reports import LOG_LEVELS
from panel.services import workers
from panel.services.microvms import timeouts
from panel.services.search_kinds import contains_text

MAX_LOG_ENTRIES = 1000
"""Stored entries of a micro VM, the latest."""

SAMPLE_RETENTION_SECONDS = 3600
LIVE_SAMPLE_SECONDS = 90
"""Seconds after which a sample no longer counts as live."""


@dataclass(frozen=True)
class LogRecord:
    """An entry to be recorded."""

    microvm_id: str
    at: datetime
    level: str
    logger: str
    message: str
    fields: dict[str, str]


@dataclass(frozen=True)
class Sample:
    """The load of a micro VM; `at` in seconds since 1970, sizes in bytes."""

    microvm_id: str
    at: int
    cpu_percent: float
    memory_used: int
    memory_total: int
    memory_cache: int
    disk_used: int
    disk_total: int

    @property
    def measured_at(self) -> datetime:
        return datetime.fromtimestamp(self.at, UTC)


def has_collector() -> bool:
    """Return whether a router collects reports: one of this machine's settings, or one that is alive elsewhere."""
    if context.current().config.sandbox_bind:
        return True
    try:
        return bool(workers.list_alive(workers.ROUTERS_KEY))
    except (RedisError, OSError):
        return False


SAMPLE_COLUMNS = [MicrovmGuestSample.__table__.c[name] for name in Sample.__dataclass_fields__]


def record(entries: Iterable[LogRecord], samples: Iterable[Sample]) -> None:
    """Record what guests reported. That of micro VMs which have ended is dropped."""
    entries, samples = list(entries), list(samples)
    ids = sorted({entry.microvm_id for entry in entries} | {sample.microvm_id for sample in samples})
    latest = select(func.max(MicrovmLogEntry.number)).where(MicrovmLogEntry.microvm_id == Microvm.id).scalar_subquery()
    query = select(Microvm.id, func.coalesce(latest, 0)).where(Microvm.id.in_(ids), Microvm.ended_at.is_(None))
    number_by_id: dict[str, int] = {row[0]: row[1] for row in session.execute(query)}
    rows: list[dict[str, Any]] = []
    for entry in entries:
        if entry.microvm_id in number_by_id:
            number_by_id[entry.microvm_id] += 1
            rows.append({**asdict(entry), "number": number_by_id[entry.microvm_id]})
    if rows:
        session.execute(insert(MicrovmLogEntry), rows)
        outdated = [
            (MicrovmLogEntry.microvm_id == id_) & (MicrovmLogEntry.number <= number_by_id[id_] - MAX_LOG_ENTRIES)
            for id_ in {row["microvm_id"] for row in rows}
        ]
        session.execute(delete(MicrovmLogEntry).where(or_(*outdated)))
    if live := [asdict(sample) for sample in samples if sample.microvm_id in number_by_id]:
        session.execute(insert(MicrovmGuestSample), live)
        timeouts.on_guest_reports({row["microvm_id"] for row in live})
        is_outdated = (
            MicrovmGuestSample.microvm_id.in_({row["microvm_id"] for row in live}),
            MicrovmGuestSample.at < int(clock.now().timestamp()) - SAMPLE_RETENTION_SECONDS,
        )
        session.execute(delete(MicrovmGuestSample).where(*is_outdated))


def delete_all(microvm: Microvm) -> None:
    """Delete what the guest of an ended micro VM reported."""
    for model in (MicrovmLogEntry, MicrovmGuestSample):
        session.execute(delete(model).where(model.microvm_id == microvm.id))


def select_log(
    microvm: Microvm,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    level: str | None = None,
    search: str | None = None,
    newest_first: bool = False,
) -> Select[MicrovmLogEntry]:
    """Select entries of a micro VM's log: of this level and above, from one time to another."""
    key = (MicrovmLogEntry.at, MicrovmLogEntry.number)
    order = [column.desc() for column in key] if newest_first else key
    query = select(MicrovmLogEntry).where(MicrovmLogEntry.microvm_id == microvm.id).order_by(*order)
    if since:
        query = query.where(MicrovmLogEntry.at >= since)
    if until:
        query = query.where(MicrovmLogEntry.at <= until)
    if level:
        query = query.where(MicrovmLogEntry.level.in_(LOG_LEVELS[LOG_LEVELS.index(level) :]))
    if search:
        query = query.where(contains_text(MicrovmLogEntry.message, search))
    return query


def list_log(microvm: Microvm, maximum: int = MAX_LOG_ENTRIES, **filters: Any) -> Sequence[MicrovmLogEntry]:
    return session.scalars(select_log(microvm, **filters).limit(maximum)).all()


def list_samples(microvm: Microvm, since: float | None = None, until: float | None = None) -> list[Sample]:
    """Return the samples of a micro VM between two times, in seconds since 1970, oldest first."""
    columns = MicrovmGuestSample
    query = select(*SAMPLE_COLUMNS).where(columns.microvm_id == microvm.id).order_by(columns.at)
    if since is not None:
        query = query.where(columns.at >= since)
    if until is not None:
        query = query.where(columns.at <= until)
    return [Sample(*row) for row in session.execute(query)]


def find_live_samples(microvms: Iterable[Microvm]) -> dict[str, Sample]:
    """Return the latest sample of each running micro VM by id; one without a recent sample is left out."""
    ids = [microvm.id for microvm in microvms if microvm.state == "running"]
    since = (clock.now() - timedelta(seconds=LIVE_SAMPLE_SECONDS)).timestamp()
    query = select(*SAMPLE_COLUMNS).where(MicrovmGuestSample.microvm_id.in_(ids), MicrovmGuestSample.at >= since)
    samples: dict[str, list[Sample]] = defaultdict(list)
    for row in session.execute(query):
        samples[row.microvm_id].append(Sample(*row))
    return {id_: max(own, key=lambda sample: sample.at) for id_, own in samples.items()}


def find_live_sample(microvm: Microvm) -> Sample | None:
    return find_live_samples([microvm]).get(microvm.id)
