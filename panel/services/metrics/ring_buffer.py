"""Store metrics: a row for each machine and step, and longer steps computed from shorter ones.

Everything may run twice: an existing row is replaced, and a longer step is computed again from its parts, any number of
times.
"""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Insert, func, insert, literal, select
from sqlalchemy.dialects import postgresql, sqlite

from panel.core.db import session
from panel.models import Instance, InstanceMetric
from panel.models.metrics import METRIC_NAMES, SLOTS_BY_STEP

INSERT_BY_DIALECT = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}
FINEST_STEP, *COARSER_STEPS = SLOTS_BY_STEP
KEY_COLUMNS = ("instance_id", "step", "slot")
VALUE_COLUMNS = ("at", *(f"{name}{ending}" for name in METRIC_NAMES for ending in ("", "_max")))
columns = InstanceMetric.__table__.c


def compute_slot(step: int, at: float) -> dict[str, int]:
    """Return the step that contains the second: its slot in the ring buffer and when it began."""
    number = int(at) // step
    return {"step": step, "slot": number % SLOTS_BY_STEP[step], "at": number * step}


def write(samples: Mapping[str, Mapping[str, float]], at: float, step: int = FINEST_STEP) -> None:
    """Store what machines used around that second: `samples` has a dictionary for each instance id. One statement."""
    if samples:
        rows = [
            {"instance_id": id_, **compute_slot(step, at), **make_values(sample)} for id_, sample in samples.items()
        ]
        session.connection().execute(upsert(), rows)


def make_values(sample: Mapping[str, float]) -> dict[str, float]:
    """Return the columns of one sample, which is both the average and the maximum of its step."""
    return {f"{name}{ending}": sample[name] for name in METRIC_NAMES for ending in ("", "_max")}


def upsert() -> Insert:
    statement = INSERT_BY_DIALECT.get(session.get_bind().dialect.name, insert)(InstanceMetric.__table__)
    return with_upsert(statement)


def with_upsert(statement: Any) -> Insert:
    new = {name: statement.excluded[name] for name in VALUE_COLUMNS}
    return statement.on_conflict_do_update(index_elements=KEY_COLUMNS, set_=new)


def rollup(hypervisor_id: str, since: float, until: float) -> None:
    """Compute the longer steps that overlap these two seconds, for the machines of one node.

    One statement for each step, which finds the shorter ones by primary key.
    """
    for step, finer in zip(COARSER_STEPS, SLOTS_BY_STEP, strict=False):
        begin = int(since) // step * step
        while begin <= until:
            session.connection().execute(build_rollup(hypervisor_id, step, finer, begin))
            begin += step


def build_rollup(hypervisor_id: str, step: int, finer: int, begin: int) -> Insert:
    slots = [compute_slot(finer, second)["slot"] for second in range(begin, begin + step, finer)]
    target = compute_slot(step, begin)
    query = (
        select(
            columns.instance_id,
            literal(step),
            literal(target["slot"]),
            literal(begin),
            *(
                aggregate
                for name in METRIC_NAMES
                for aggregate in (func.avg(columns[name]), func.max(columns[f"{name}_max"]))
            ),
        )
        .join(Instance, Instance.id == columns.instance_id)
        .where(
            Instance.hypervisor_id == hypervisor_id,
            columns.step == finer,
            columns.slot.in_(slots),
            columns.at >= begin,
            columns.at < begin + step,
        )
        .group_by(columns.instance_id)
    )
    statement = INSERT_BY_DIALECT.get(session.get_bind().dialect.name, insert)(InstanceMetric.__table__)
    return with_upsert(statement.from_select([*KEY_COLUMNS, *VALUE_COLUMNS], query))
