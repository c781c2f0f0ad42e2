"""Run several simple tasks of one kind together, which costs less than half of running them one by one.

One transaction claims the tasks, one reads their resources and one ends them. The batch handles only the simple case:
first attempts of tasks whose resource has no other task. Everything else, and everything from the first error on, is
re-queued and run alone by `worker.engine.runner`, which is the only module that handles failures.
"""

import time
from collections import Counter
from collections.abc import Sequence
from functools import cache

import structlog
from sqlalchemy import Select, bindparam, select, update

from panel.core import clock, jobs, live_changes
from panel.core.database_errors import log_failure
from panel.core.db import count_changed, session, with_lock
from panel.core.messages import message
from panel.models import Task, TaskLog
from worker.engine import claiming
from worker.engine.registry import BATCH_HANDLERS
from worker.engine.runner import DATABASE_AWAY_ERRORS, LeaseLost, TaskContext

log = structlog.get_logger()

BATCH_DEADLINE_SECONDS = 2.0
"""Seconds after which the rest of a batch is re-queued, because other threads and workers may be free by then."""

task_columns = Task.__table__.c


def run(task_ids: Sequence[str], worker: str) -> None:
    """Run the tasks that can be batched and notify again for the others. `worker` is a new, unique name."""
    works = claim(task_ids, worker)
    completed = run_batch(works) if works else []
    requeued = [work.task.id for work in works if work not in completed]
    requeue(requeued, worker)
    claimed_ids = {work.task.id for work in works}
    for task_id in (*requeued, *(task_id for task_id in task_ids if task_id not in claimed_ids)):
        jobs.notify(task_id)


def claim(task_ids: Sequence[str], worker: str) -> list[TaskContext]:
    """Claim the batchable tasks that have the same kind as the first of them."""
    rows = session.scalars(select_open_tasks(), {"task_ids": task_ids}).all()
    task_counts = Counter(row.resource_id for row in rows)
    batchable = [row for row in rows if row.id in task_ids and task_counts[row.resource_id] == 1 and is_batchable(row)]
    rows = [row for row in batchable if row.kind == batchable[0].kind]
    now = clock.now()
    for row in rows:
        row.status, row.attempt, row.started_at, row.heartbeat_at = "running", 1, now, now
        row.worker, row.stage = worker, BATCH_HANDLERS[row.kind].stage
        session.add(TaskLog(task_id=row.id, message=row.stage))
    session.commit()
    return [TaskContext(row, worker) for row in rows]


@cache
def select_open_tasks() -> Select[Task]:
    resources = select(Task.resource_id).where(Task.id.in_(bindparam("task_ids", expanding=True)))
    query = select(Task).where(Task.resource_id.in_(resources), claiming.TASK_IS_UNDER_WAY).order_by(Task.id)
    return with_lock(query, key_share=True)


def is_batchable(row: Task) -> bool:
    is_first_attempt = row.status == "queued" and not row.attempt and not row.worker and not row.rollback_steps
    return row.kind in BATCH_HANDLERS and is_first_attempt and row.lock == "light" and row.cancel_requested_at is None


def run_batch(works: list[TaskContext]) -> list[TaskContext]:
    """Return the tasks that were completed."""
    kind = works[0].task.kind
    log.info("tasks_started", kind=kind, count=len(works), worker=works[0].worker)
    try:
        completed = BATCH_HANDLERS[kind].body(works, until=time.monotonic() + BATCH_DEADLINE_SECONDS)
        waited_for = complete_batch(completed) if completed else ()
    except Exception as error:
        session.rollback()
        log_failure(log, "not_together", error, kind=kind)
        return []
    log.info("tasks_ended", kind=kind, count=len(completed))
    for work in completed:
        if work.task.resource_id in waited_for:
            claiming.notify_waiting(work.task)
    return completed


def complete_batch(works: list[TaskContext]) -> set[str]:
    """End the tasks and commit what the handler changed. Return the resources that other tasks wait for.

    Raises LeaseLost, and ends none, when one of the tasks belongs to another worker.
    """
    now, owned = (
        clock.now(),
        task_columns.id.in_([work.task.id for work in works]) & (task_columns.worker == works[0].worker),
    )
    values = {"status": "completed", "stage": message("Done"), "progress": 100, "worker": None, "secret": None}
    times = {"heartbeat_at": now, "updated_at": now, "finished_at": now}
    if count_changed(update(Task.__table__).where(owned).values(**values, **times)) != len(works):
        raise LeaseLost
    # Query before the commit, while the rows are locked: a claim that found these tasks running is over by then, so its
    # task is found here, and a later claim waits for the commit.
    query = select(Task.resource_id).where(Task.resource_id.in_([work.task.resource_id for work in works]))
    waited_for = set(session.scalars(query.where(Task.status == "queued")))
    for work in works:
        live_changes.note(work.task, session)
    session.commit()
    return waited_for


def requeue(task_ids: Sequence[str], worker: str) -> None:
    """Put claimed tasks back as if they had never been claimed. If the database is away, the reaper does it."""
    if not task_ids:
        return
    statement = update(Task.__table__).where(task_columns.id.in_(task_ids), task_columns.worker == worker)
    try:
        session.execute(
            statement.values(status="queued", attempt=0, worker=None, started_at=None, stage=message("Waiting"))
        )
        session.commit()
    except DATABASE_AWAY_ERRORS as error:
        session.rollback()
        log_failure(log, "tasks_dropped", error)
