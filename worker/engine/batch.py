"""Several tasks of one kind in one go: one transaction takes them, one reads what they are about, and one ends them.
A command on a thousand machines costs less than half of what it would one by one.

Only what goes smoothly goes together. The rest is given back, with a bell for each, and is carried alone: a task whose
resource has anything else under way, a second attempt, what its kind leaves aside, and everything that met a fault or
came after one. So `worker.engine.runner` alone knows what to do when something goes wrong.
"""

import time
from collections import Counter
from functools import cache

import structlog
from sqlalchemy import bindparam, select, update

from panel.core import clock, jobs
from panel.core.database_errors import log_failure
from panel.core.db import session
from panel.models import Task, TaskLog
from worker.engine import claiming
from worker.engine.registry import TASK_TYPES
from worker.engine.runner import DATABASE_AWAY_ERRORS, LeaseLost, TaskContext

log = structlog.get_logger()

BATCH_DEADLINE_SECONDS = 2.0
"""Seconds after which the rest of a batch is given back: other hands, and other workers, may be free by then."""

task_columns = Task.__table__.c


def run(task_ids, worker):
    """Carries the tasks that may go together. `worker` must be a new name."""
    works = claim(task_ids, worker)
    done = run_batch(works) if works else []
    rest = [work.task.id for work in works if work not in done]
    requeue(rest, worker)
    taken = {work.task.id for work in works}
    for task_id in (*rest, *(task_id for task_id in task_ids if task_id not in taken)):
        jobs.notify(task_id)


def claim(task_ids, worker):
    """Takes those of the first one's kind that nothing holds up."""
    rows = session.scalars(select_under_way(), {"task_ids": task_ids}).all()
    mates = Counter(row.resource_id for row in rows)
    free = [row for row in rows if row.id in task_ids and mates[row.resource_id] == 1 and is_batchable(row)]
    rows = [row for row in free if row.kind == free[0].kind]
    now = clock.now()
    for row in rows:
        row.status, row.attempt, row.started_at, row.heartbeat_at = "running", 1, now, now
        row.worker, row.stage = worker, TASK_TYPES[row.kind].batch.stage
        session.add(TaskLog(task_id=row.id, message=row.stage))
    session.commit()
    return [TaskContext(row, worker) for row in rows]


@cache
def select_under_way():
    resources = select(Task.resource_id).where(Task.id.in_(bindparam("task_ids", expanding=True)))
    mates = select(Task).where(Task.resource_id.in_(resources), claiming.TASK_IS_UNDER_WAY).order_by(Task.id)
    return mates.with_for_update(key_share=True).execution_options(populate_existing=True)


def is_batchable(row):
    fresh = row.status == "queued" and not row.attempt and not row.worker and not row.undo
    known = row.kind in TASK_TYPES and TASK_TYPES[row.kind].batch is not None
    return known and fresh and row.lock == "light" and row.cancel_requested_at is None


def run_batch(works):
    """Gives those that are done."""
    kind = works[0].task.kind
    log.info("tasks_started", kind=kind, count=len(works), worker=works[0].worker)
    try:
        done = TASK_TYPES[kind].batch.body(works, until=time.monotonic() + BATCH_DEADLINE_SECONDS)
        waited_for = complete_batch(done) if done else ()
    except Exception as error:
        session.rollback()
        log_failure(log, "not_together", error, kind=kind)
        return []
    log.info("tasks_ended", kind=kind, count=len(done))
    for work in done:
        if work.task.resource_id in waited_for:
            claiming.notify_waiting(work.task)
    return done


def complete_batch(works):
    """Ends the tasks, if all are still ours, with what the body changed. Gives the resources for which others wait."""
    now, ours = (
        clock.now(),
        task_columns.id.in_([work.task.id for work in works]) & (task_columns.worker == works[0].worker),
    )
    ended = {"status": "completed", "stage": "Done", "progress": 100, "worker": None, "secret": None}
    times = {"heartbeat_at": now, "updated_at": now, "finished_at": now}
    if session.execute(update(Task.__table__).where(ours).values(**ended, **times)).rowcount != len(works):
        raise LeaseLost
    # Asked while the rows are locked: a claim that did not see them end yet comes before that, or waits for it.
    queued = select(Task.resource_id).where(Task.resource_id.in_([work.task.resource_id for work in works]))
    waited_for = set(session.scalars(queued.where(Task.status == "queued")))
    session.commit()
    return waited_for


def requeue(task_ids, worker):
    """As if they had never been taken. Should the database be away, the sweep finds that their worker went silent."""
    if not task_ids:
        return
    ours = update(Task.__table__).where(task_columns.id.in_(task_ids), task_columns.worker == worker)
    try:
        session.execute(ours.values(status="queued", attempt=0, worker=None, started_at=None, stage="Waiting"))
        session.commit()
    except DATABASE_AWAY_ERRORS as error:
        session.rollback()
        log_failure(log, "tasks_dropped", error)
