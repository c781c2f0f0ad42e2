"""Store metrics: a row for each machine or node and step, and longer steps computed from shorter ones.

Everything may run twice: an existing row is replaced, and a longer step is computed again from its parts, any number of
times.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Insert, Select, Table, func, insert, literal, select
from sqlalchemy.dialects import postgresql, sqlite

from panel.core.db import session
from panel.models import HypervisorMetric, Instance, InstanceMetric
from panel.models.metrics import HOST_METRIC_NAMES, METRIC_NAMES, SLOTS_BY_STEP

INSERT_BY_DIALECT = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}
FINEST_STEP, *COARSER_STEPS = SLOTS_BY_STEP
VALUE_COLUMNS = ("at", *(f"{name}{ending}" for name in METRIC_NAMES for ending in ("", "_max")))
columns = InstanceMetric.__table__.c


def compute_slot(step: int, at: float, slots_by_step: Mapping[int, int] = SLOTS_BY_STEP) -> dict[str, int]:
    """Return the step that contains the second: its slot in the ring buffer and when it began."""
    number = int(at) // step
    return {"step": step, "slot": number % slots_by_step[step], "at": number * step}


def write(samples: Mapping[str, Mapping[str, float]], at: float, step: int = FINEST_STEP) -> None:
    """Store what machines used around that second: `samples` has a dictionary for each instance id. One statement."""
    if samples:
        rows = [
            {"instance_id": id_, **compute_slot(step, at), **make_values(sample)} for id_, sample in samples.items()
        ]
        session.connection().execute(upsert(), rows)


def write_host(hypervisor_id: str, sample: Mapping[str, float | None], at: float) -> None:
    """Store what all machines of a node used together around that second, and what the whole host used, if the sample
    has that."""
    values = make_values({**dict.fromkeys(HOST_METRIC_NAMES), **sample}, METRIC_NAMES + HOST_METRIC_NAMES)
    row = {"hypervisor_id": hypervisor_id, **compute_slot(FINEST_STEP, at), **values}
    session.connection().execute(upsert(HypervisorMetric.__table__), [row])


def make_values(sample: Mapping[str, float | None], names: Sequence[str] = METRIC_NAMES) -> dict[str, float | None]:
    """Return the columns of one sample, which is both the average and the maximum of its step."""
    return {f"{name}{ending}": sample[name] for name in names for ending in ("", "_max")}


def list_value_columns(table: Table) -> tuple[str, ...]:
    """Return the names of the columns of a ring buffer that are no key: when the step began, averages and maxima."""
    maxima = [column.name for column in table.c if column.name.endswith("_max")]
    return ("at", *(name for maximum in maxima for name in (maximum.removesuffix("_max"), maximum)))


def upsert(table: Table = InstanceMetric.__table__) -> Insert:
    statement = INSERT_BY_DIALECT.get(session.get_bind().dialect.name, insert)(table)
    return with_upsert(statement)


def with_upsert(statement: Any) -> Insert:
    new = {name: statement.excluded[name] for name in list_value_columns(statement.table)}
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
                (func.max if name.endswith("_max") else func.avg)(table.c[name])
                for name in list_value_columns(table)[1:]
            ),
        )
        .where(table.c.step == finer, table.c.slot.in_(slots), table.c.at >= begin, table.c.at < begin + step)
        .group_by(owner)
    )
    statement = INSERT_BY_DIALECT.get(session.get_bind().dialect.name, insert)(table)
    return with_upsert(statement.from_select([owner.name, "step", "slot", *list_value_columns(table)], query))
