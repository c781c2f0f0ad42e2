"""Store metrics: a row for each machine or node and step, and longer steps computed from shorter ones.

Everything may run twice: an existing row is replaced, and a longer step is computed again from its parts, any number of
times.
"""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Insert, Select, Table, func, insert, literal, select
from sqlalchemy.dialects import postgresql, sqlite

from panel.core.db import session
from panel.models import HypervisorMetric, Instance, InstanceMetric
from panel.models.metrics import METRIC_NAMES, SLOTS_BY_STEP

INSERT_BY_DIALECT = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}
FINEST_STEP, *COARSER_STEPS = SLOTS_BY_STEP
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


def write_host(hypervisor_id: str, sample: Mapping[str, float], at: float) -> None:
    """Store what all machines of a node used together around that second."""
    row = {"hypervisor_id": hypervisor_id, **compute_slot(FINEST_STEP, at), **make_values(sample)}
    session.connection().execute(upsert(HypervisorMetric.__table__), [row])


def make_values(sample: Mapping[str, float]) -> dict[str, float]:
    """Return the columns of one sample, which is both the average and the maximum of its step."""
    return {f"{name}{ending}": sample[name] for name in METRIC_NAMES for ending in ("", "_max")}


def upsert(table: Table = InstanceMetric.__table__) -> Insert:
    statement = INSERT_BY_DIALECT.get(session.get_bind().dialect.name, insert)(table)
    return with_upsert(statement)


def with_upsert(statement: Any) -> Insert:
    new = {name: statement.excluded[name] for name in VALUE_COLUMNS}
    return statement.on_conflict_do_update(index_elements=list(statement.table.primary_key), set_=new)


def rollup(hypervisor_id: str, since: float, until: float) -> None:
    """Compute the longer steps that overlap these two seconds, for the machines of one node.

    One statement for each step, which finds the shorter ones by primary key.
    """
    rows = select(columns.instance_id).join(Instance, Instance.id == columns.instance_id)
    roll_up_rows(rows.where(Instance.hypervisor_id == hypervisor_id), since, until)


def rollup_host(hypervisor_id: str, since: float, until: float) -> None:
    """Compute the longer steps of the node itself."""
    owner = HypervisorMetric.__table__.c.hypervisor_id
    roll_up_rows(select(owner).where(owner == hypervisor_id), since, until)


def roll_up_rows(rows: Select[str], since: float, until: float) -> None:
    for step, finer in zip(COARSER_STEPS, SLOTS_BY_STEP, strict=False):
        begin = int(since) // step * step
        while begin <= until:
            session.connection().execute(build_rollup(rows, step, finer, begin))
            begin += step


def build_rollup(rows: Select[str], step: int, finer: int, begin: int) -> Insert:
    """Return the statement that computes one longer step. `rows` selects the key column of the rows that count."""
    (owner,) = rows.selected_columns
    table, slots = owner.table, [compute_slot(finer, second)["slot"] for second in range(begin, begin + step, finer)]
    target = compute_slot(step, begin)
    query = (
        rows.add_columns(
            literal(step),
            literal(target["slot"]),
            literal(begin),
            *(
                aggregate
                for name in METRIC_NAMES
                for aggregate in (func.avg(table.c[name]), func.max(table.c[f"{name}_max"]))
            ),
        )
        .where(table.c.step == finer, table.c.slot.in_(slots), table.c.at >= begin, table.c.at < begin + step)
        .group_by(owner)
    )
    statement = INSERT_BY_DIALECT.get(session.get_bind().dialect.name, insert)(table)
    return with_upsert(statement.from_select([owner.name, "step", "slot", *VALUE_COLUMNS], query))
