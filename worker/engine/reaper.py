"""Repairing what was lost: tasks of lost workers, lost notifications, rollback steps that failed.

A worker is lost when the heartbeat of its task does not change for a lease. The time is measured with this process's
monotonic clock, so a change of the system clock cannot take a task from a living worker. After a pause of this process
itself, every task gets a whole lease again. Any number of reapers may run: each repair is one conditional change of a
row.
"""

from collections.abc import Collection
from datetime import datetime
from time import monotonic

import structlog
from redis import RedisError
from sqlalchemy import select

from panel.core import jobs
from panel.core.database_errors import log_failure
from panel.core.db import session, with_lock
from panel.core.messages import message
from panel.models import Hypervisor, Task, TaskLog
from worker.engine.application import Application
from worker.engine.claiming import ROLLBACK_IS_PENDING, TASK_IS_UNDER_WAY, select_runnable
from worker.engine.registry import TASK_TYPES
from worker.engine.runner import DATABASE_AWAY_ERRORS, TaskContext, finish_failed

log = structlog.get_logger()

MAX_TASK_ATTEMPTS = 3

TASK_LEASE_SECONDS = 40.0
"""Seconds without a heartbeat after which a task's worker counts as lost."""

MAX_BACKLOG = 100
"""Notifications in the queue above which no more are sent."""


class Reaper:
    """Runs every few seconds. Remembers the heartbeats and the waiting tasks of its last run."""

    def __init__(self, lease: float = TASK_LEASE_SECONDS) -> None:
        self.lease = lease
        self.last_heartbeats: dict[tuple[str, str, datetime | None], float] = {}
        self.waiting: set[str] = set()
        self.last_run_at = self.next_rollback_retry_at = 0.0

    def __call__(self) -> None:
        self.requeue_lost()
        if get_queue_length() < MAX_BACKLOG:
            self.renotify_stale()
            self.retry_rollbacks()

    def requeue_lost(self) -> None:
        now = monotonic()
        if now - self.last_run_at > self.lease / 2:
            self.last_heartbeats = {}
        self.last_run_at = now
        claimed = select(Task.id, Task.worker, Task.heartbeat_at).where(TASK_IS_UNDER_WAY)
        rows = [
            (row.id, row.worker, row.heartbeat_at) for row in session.execute(claimed.where(Task.worker.is_not(None)))
        ]
        session.commit()
        self.last_heartbeats = {row: self.last_heartbeats.get(row, now) for row in rows}
        for row, unchanged_since in self.last_heartbeats.items():
            if now - unchanged_since >= self.lease:
                requeue_or_fail(*row)

    def renotify_stale(self) -> None:
        """Notify again for tasks that were already waiting at the last run: their notification was lost."""
        waiting = session.scalars(select_runnable().limit(5 * MAX_BACKLOG)).all()
        session.commit()
        for task_id in waiting:
            if task_id in self.waiting:
                jobs.notify(task_id)
        self.waiting = set(waiting)

    def retry_rollbacks(self) -> None:
        """Once a lease, notify for ended tasks with rollback steps on nodes that are up."""
        if monotonic() < self.next_rollback_retry_at:
            return
        self.next_rollback_retry_at = monotonic() + self.lease
        with_rollback = select(Task.id).join(Hypervisor, Hypervisor.id == Task.hypervisor_id).where(ROLLBACK_IS_PENDING)
        task_ids = session.scalars(
            with_rollback.where(Hypervisor.status == "up", Task.worker.is_(None)).limit(MAX_BACKLOG)
        ).all()
        session.commit()
        for task_id in task_ids:
            jobs.notify(task_id)


def requeue_replaced(app: Application, workers: Collection[str]) -> None:
    """Requeue tasks of workers whose processes have ended, without waiting for the end of their leases.

    Only those of kinds with `is_requeued_early`: a longer call may still go on at the node.
    """
    kinds = [kind for kind, task_type in TASK_TYPES.items() if task_type.is_requeued_early]
    claimed = select(Task.id, Task.worker, Task.heartbeat_at).where(Task.status == "running", Task.kind.in_(kinds))
    try:
        with app.app_context():
            for worker in workers:
                rows = session.execute(claimed.where(Task.worker.startswith(f"{worker}-", autoescape=True))).all()
                session.commit()
                for row in rows:
                    requeue_or_fail(row.id, row.worker, row.heartbeat_at)
                    jobs.notify(row.id)
    except DATABASE_AWAY_ERRORS as error:
        log_failure(log, "tasks_not_requeued", error)


def get_queue_length() -> int:
    """Return how many notifications wait in the queue; MAX_BACKLOG when Redis does not answer."""
    try:
        return jobs.queue().count
    except (RedisError, OSError):
        return MAX_BACKLOG


def requeue_or_fail(task_id: str, worker: str, heartbeat: datetime | None) -> None:
    """Re-queue a task whose worker was lost. Fail one that lost too many workers."""
    query = select(Task).where(Task.id == task_id, Task.worker == worker, Task.heartbeat_at == heartbeat)
    row = session.scalar(with_lock(query, key_share=True))
    if row is None:
        return session.rollback()
    log.warning("task_worker_lost", task_id=row.id, kind=row.kind, attempt=row.attempt, worker=worker)
    if not row.open:
        row.worker = None
    elif row.attempt < MAX_TASK_ATTEMPTS:
        row.status, row.worker, row.stage = "queued", None, message("Waiting: the worker was lost")
        session.add(TaskLog(task_id=row.id, message=message("The worker was lost. Another one starts again.")))
    else:
        error = message("The worker was lost in each of {attempts} attempts. Try again.", attempts=row.attempt)
        finish_failed(
            TaskContext(row, worker),
            "failed",
            error,
            rollback_pending=bool(row.rollback_steps),
            error_class="WorkerLost",
        )
    session.commit()
