"""Keeping figures: a row for each machine and span, and longer spans made of shorter ones.

Everything may be done twice: a row that is there is replaced, and a longer span is worked out anew from what it is made
of, as often as one likes while it goes on.
"""

from sqlalchemy import func, insert, literal, select
from sqlalchemy.dialects import postgresql, sqlite

from panel.core.db import session
from panel.models import Instance, InstanceMetric
from panel.models.metrics import METRIC_NAMES, SLOTS_BY_STEP

INSERT_BY_DIALECT = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}
FINEST_STEP, *COARSER_STEPS = SLOTS_BY_STEP
KEY_COLUMNS = ("instance_id", "step", "slot")
VALUE_COLUMNS = ("at", *(f"{name}{ending}" for name in METRIC_NAMES for ending in ("", "_max")))
columns = InstanceMetric.__table__.c


def slot_for(step, at):
    """Which span of that length the second belongs to: where it lies in the ring and when it began."""
    number = int(at) // step
    return {"step": step, "slot": number % SLOTS_BY_STEP[step], "at": number * step}


def write(figures, at, step=FINEST_STEP):
    """Keeps what machines used around that second: `figures` has a dictionary for each instance. One statement."""
    if figures:
        rows = [{"instance_id": id_, **slot_for(step, at), **make_values(found)} for id_, found in figures.items()]
        session.connection().execute(upsert(), rows)


def make_values(found):
    """One look is both the average and the highest of its span."""
    return {f"{name}{ending}": found[name] for name in METRIC_NAMES for ending in ("", "_max")}


def upsert():
    statement = INSERT_BY_DIALECT.get(session.get_bind().dialect.name, insert)(InstanceMetric.__table__)
    return with_upsert(statement)


def with_upsert(statement):
    new = {name: statement.excluded[name] for name in VALUE_COLUMNS}
    return statement.on_conflict_do_update(index_elements=KEY_COLUMNS, set_=new)


def rollup(hypervisor_id, since, until):
    """Works out the longer spans that touch the time between these two seconds, for the machines of one node: one
    statement a span, which finds the shorter ones by their keys."""
    for step, finer in zip(COARSER_STEPS, SLOTS_BY_STEP, strict=False):
        begin = int(since) // step * step
        while begin <= until:
            session.connection().execute(build_rollup(hypervisor_id, step, finer, begin))
            begin += step


def build_rollup(hypervisor_id, step, finer, begin):
    slots = [slot_for(finer, second)["slot"] for second in range(begin, begin + step, finer)]
    place_of = slot_for(step, begin)
    worked_out = (
        select(
            columns.instance_id,
            literal(step),
            literal(place_of["slot"]),
            literal(begin),
            *(each for name in METRIC_NAMES for each in (func.avg(columns[name]), func.max(columns[f"{name}_max"]))),
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
    return with_upsert(statement.from_select([*KEY_COLUMNS, *VALUE_COLUMNS], worked_out))
