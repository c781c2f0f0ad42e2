"""Mending what was lost: workers that died, bells that nobody heard, undo steps that the node did not answer.

A dead worker is known by its heartbeat: a value in the row that does not change any more. How long it has not changed
is measured by this process's own monotonic clock, so a clock that is set forward or back takes no task from a living
worker, and after a pause of this process itself everybody gets a whole lease again. Any number of processes may sweep:
each repair is one conditional change of a row.
"""

from time import monotonic

import structlog
from redis import RedisError
from sqlalchemy import select

from panel.core import jobs
from panel.core.db import session
from panel.models import Hypervisor, Task, TaskLog
from worker.engine.claiming import UNDER_WAY, UNDO_LEFT, ready
from worker.engine.runner import Work, end_badly

log = structlog.get_logger()

MAX_ATTEMPTS = 3

LEASE = 40.0
"""Seconds without a heartbeat after which a task has lost its worker."""

MANY = 100
"""Bells that wait to be heard; while there are more, further ones would be noise."""


class Sweep:
    """Runs every few seconds and remembers what it saw before."""

    def __init__(self, lease=LEASE):
        self.lease = lease
        self.beats, self.looked = {}, 0.0
        self.waiting, self.undo_at = set(), 0.0

    def __call__(self):
        self.settle_lost()
        if bells() < MANY:
            self.ring_unheard()
            self.ring_undo()

    def settle_lost(self):
        now = monotonic()
        if now - self.looked > self.lease / 2:
            self.beats = {}
        self.looked = now
        held = select(Task.id, Task.worker, Task.heartbeat_at).where(UNDER_WAY)
        rows = [tuple(row) for row in session.execute(held.where(Task.worker.is_not(None)))]
        session.commit()
        self.beats = {row: self.beats.get(row, now) for row in rows}
        for row, since in self.beats.items():
            if now - since >= self.lease:
                settle(*row)

    def ring_unheard(self):
        """Rings for rows that have been waiting since the last look: their bell was lost."""
        waiting = session.scalars(ready().limit(5 * MANY)).all()
        session.commit()
        for task_id in waiting:
            if task_id in self.waiting:
                jobs.ring(task_id)
        self.waiting = set(waiting)

    def ring_undo(self):
        """Once a lease, rings for what ended tasks left on nodes that answer by now."""
        if monotonic() < self.undo_at:
            return
        self.undo_at = monotonic() + self.lease
        left = select(Task.id).join(Hypervisor, Hypervisor.id == Task.hypervisor_id).where(UNDO_LEFT)
        found = session.scalars(left.where(Hypervisor.status == "up", Task.worker.is_(None)).limit(MANY)).all()
        session.commit()
        for task_id in found:
            jobs.ring(task_id)


def bells():
    """How many wait to be heard; more than any when nobody can say."""
    try:
        return jobs.queue().count
    except (RedisError, OSError):
        return MANY


def settle(task_id, worker, heartbeat):
    """Hands a task whose worker went silent to another one; gives up one that lost too many workers."""
    same = select(Task).where(Task.id == task_id, Task.worker == worker, Task.heartbeat_at == heartbeat)
    row = session.scalar(same.with_for_update(key_share=True).execution_options(populate_existing=True))
    if row is None:
        return session.rollback()
    log.warning("worker_lost", task_id=row.id, kind=row.kind, attempt=row.attempt, worker=worker)
    if not row.open:
        row.worker = None
    elif row.attempt < MAX_ATTEMPTS:
        row.status, row.worker, row.stage = "queued", None, "Waiting: the worker was lost"
        session.add(TaskLog(task_id=row.id, message="The worker was lost. Another one begins anew."))
    else:
        error = f"It was begun {row.attempt} times, and each time the worker was lost. Try again."
        end_badly(Work(row, worker), "failed", error, undo_left=bool(row.undo), error_class="WorkerLost")
    session.commit()
