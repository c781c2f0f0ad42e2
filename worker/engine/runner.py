"""Running one task: claim it, run its handler step by step, and record how it ended.

A task may run more than once, because another worker gets it when its worker was lost. So `work.undo(...)` stores the
rollback step of each step in the row before the step begins, and a new attempt first runs the stored rollback steps.
When the task fails they run, newest first. Those that fail stay in the row, and the reaper has them retried.

`task.worker` holds the lease. Each claim uses a unique name, so a worker that lost its lease detects that and stops.
"""

import time
import traceback
from contextlib import suppress
from datetime import datetime
from typing import Any

import structlog
from sqlalchemy import Row, bindparam, insert, select, update
from sqlalchemy.exc import InterfaceError, OperationalError, TimeoutError
from sqlalchemy.orm import Session
from sqlalchemy.orm.attributes import set_committed_value

from panel.core import clock, context, live_changes
from panel.core.database_errors import log_failure
from panel.core.db import session
from panel.core.errors import Problem
from panel.core.messages import get_message, message
from panel.models import Task, TaskLog
from panel.services.inbox.reports import is_worth_reporting, report_task
from worker.engine import claiming
from worker.engine.registry import TASK_TYPES
from worker.engine.transfer_rate import TransferRate
from worker.nodes.base import NodeDriver, NodeError, NotOnNode, Unreachable
from worker.sync.node_sync import connect_node

log = structlog.get_logger()

TASK_WAIT_INTERVAL_SECONDS = 0.5
"""Seconds between two checks of a task that waits."""

SHOWN_COLUMNS = {"status", "stage", "progress", "error"}
"""Columns whose changes open pages show at once."""

DATABASE_AWAY_ERRORS = (OperationalError, InterfaceError, TimeoutError)


class Cancelled(Exception):
    """The task was cancelled."""


class LeaseLost(Exception):
    """The row belongs to another worker: this one must not change anything more."""


class WorkerStopping(Exception):
    """The worker stops before the task has ended: another one runs the task again."""


class TaskContext:
    """What a handler receives: the task's row, its node, and methods for steps, rollback and progress."""

    def __init__(self, row: Task, worker: str) -> None:
        self.task, self.worker = row, worker
        self.database, self.next_progress_write_at = session.get_bind(), 0.0
        self.nothing_queued, self.highest_progress = False, 0
        self.transfer_rate = TransferRate()

    @property
    def node(self) -> NodeDriver:
        return connect_node(self.task.hypervisor_id)

    def step(self, stage: str, progress: int) -> None:
        """Begin a step: commit what came before and record the new stage.

        Raises Cancelled, or LeaseLost when another worker has the task.
        """
        session.connection().execute(INSERT_LOG, {"task_id": self.task.id, "message": stage})
        # Steps that several kinds share do not know the progress of the task so far.
        self.highest_progress = max(self.highest_progress, progress)
        self.transfer_rate = TransferRate()
        transfer = dict.fromkeys(("bytes_done", "bytes_total", "bytes_per_second"))
        cancelled = self.update(stage=stage, progress=self.highest_progress, **transfer)
        session.commit()
        if cancelled:
            raise Cancelled

    def step_exclusive(self, stage: str, progress: int) -> None:
        """Begin a step that only one task of the node may be in at a time. Waits for the others."""
        if not self.is_turn(stage):
            self.step(message("Waiting for another task: {stage}", stage=stage), progress)
            while not self.is_turn(stage):
                self.check()
                time.sleep(TASK_WAIT_INTERVAL_SECONDS)
        self.step(stage, progress)

    def is_turn(self, stage: str) -> bool:
        claiming.lock_hypervisor(self.task.hypervisor_id)
        others = select(Task.id).where(Task.hypervisor_id == self.task.hypervisor_id, Task.status == "running")
        return session.scalar(others.where(Task.stage == stage, Task.id != self.task.id).limit(1)) is None

    def check(self) -> None:
        """Raise when the task was cancelled or its lease is lost. Ends the transaction."""
        owned_row = select(Task.cancel_requested_at).where(Task.id == self.task.id, Task.worker == self.worker)
        self.check_lease(session.execute(owned_row).one_or_none())
        session.commit()

    def check_interruptible(self) -> None:
        """Like `check`, and raise WorkerStopping when the worker stops. For waits of tasks that may begin again."""
        self.check()
        if context.current().is_stopping:
            raise WorkerStopping

    def report_progress(self, done: int, total: int) -> None:
        """Record the bytes of a transfer, at most once a second, and raise like `check`.

        Uses its own database session, because a driver may call it from another thread.
        """
        rate = self.transfer_rate.update(done)
        if done < total and time.monotonic() < self.next_progress_write_at:
            return
        self.next_progress_write_at = time.monotonic() + 1
        with Session(self.database, join_transaction_mode="create_savepoint") as own_session:
            owned_row = update(Task).where(Task.id == self.task.id, Task.worker == self.worker)
            statement = owned_row.values(bytes_done=done, bytes_total=total, bytes_per_second=rate)
            statement = statement.returning(Task.cancel_requested_at)
            row = own_session.execute(statement).one_or_none()
            live_changes.note(self.task, own_session)
            own_session.commit()
        self.check_lease(row)

    def check_lease(self, row: Row[datetime | None] | None) -> None:
        if row is None:
            raise LeaseLost
        if row.cancel_requested_at:
            raise Cancelled

    def undo(self, call: str, *args: Any) -> None:
        """Store a rollback step for the next step: a method of the node driver and its arguments."""
        self.update(rollback_steps=[*self.task.rollback_steps, [call, *args]])
        session.commit()

    def update(self, **values: Any) -> datetime | None:
        """Write values into the row and return `cancel_requested_at`. Raise LeaseLost when the lease is lost."""
        now = clock.now()
        values |= {"heartbeat_at": now, "updated_at": now}
        owned_row = {"task_id": self.task.id, "lease_holder": self.worker}
        row = session.connection().execute(UPDATE_IF_OWNED, owned_row | values).one_or_none()
        if row is None:
            raise LeaseLost
        for name, value in values.items():
            set_committed_value(self.task, name, value)
        if not SHOWN_COLUMNS.isdisjoint(values):
            live_changes.note(self.task, session)
        return row.cancel_requested_at


task_columns = Task.__table__.c
UPDATE_IF_OWNED = (
    update(Task.__table__)
    .where(task_columns.id == bindparam("task_id"), task_columns.worker == bindparam("lease_holder"))
    .returning(task_columns.cancel_requested_at)
)
INSERT_LOG = insert(TaskLog.__table__)
"""Compiled once and executed without the ORM, because every task does it several times."""


def run(task_id: str, worker: str) -> None:
    """Run one task to its end. Return at once when it cannot be claimed. `worker` is a new, unique name."""
    row = claiming.claim(task_id, worker)
    if row is None:
        return
    with structlog.contextvars.bound_contextvars(task_id=row.id, kind=row.kind):
        log.info("task_started", attempt=row.attempt, resource=row.resource_name, worker=worker)
        work = TaskContext(row, worker)
        try:
            execute(work) if row.open else retry_rollback(work)
        except LeaseLost:
            session.rollback()
            log.warning("task_lease_lost")
            return
        except DATABASE_AWAY_ERRORS as error:
            session.rollback()
            log_failure(log, "task_dropped", error)  # nothing can be written: the reaper re-queues it
            return
    if not work.nothing_queued:
        claiming.notify_waiting(row)


def execute(work: TaskContext) -> None:
    try:
        roll_back(work)
        if work.task.cancel_requested_at:
            raise Cancelled
        TASK_TYPES[work.task.kind].body(work)
        finish(work, "completed", stage=message("Done"), progress=100, rollback_steps=[])
    except Cancelled:
        operator_error = work.task.error  # an operator gave the task up: that is a failure, with their reason
        fail(work, "failed" if operator_error else "cancelled", operator_error or message("The task was cancelled."))
    except (NodeError, Problem) as error:
        detail, outcome_unknown = getattr(error, "detail", None), isinstance(error, Unreachable)
        fail(work, "failed", get_message(error), detail, outcome_unknown, error_class=type(error).__name__)
    except WorkerStopping:
        requeue(work)
    except (LeaseLost, *DATABASE_AWAY_ERRORS):
        raise
    except Exception as error:
        session.rollback()
        log.exception("task_crashed")
        class_name = type(error).__name__[:64]
        fail(
            work,
            "failed",
            message("An internal error occurred."),
            traceback.format_exc(),
            error_class=class_name,
        )


def requeue(work: TaskContext) -> None:
    """Put the task back for another worker, which runs its rollback steps first. The attempt does not count."""
    session.rollback()
    stage = message("Waiting: the worker was stopped")
    work.update(status="queued", worker=None, attempt=work.task.attempt - 1, stage=stage)
    session.commit()
    log.info("task_requeued")


def finish(work: TaskContext, status: str, **values: Any) -> None:
    """End the task and commit what the handler changed since its last step. Raise LeaseLost when the lease is lost."""
    work.update(status=status, worker=None, finished_at=clock.now(), secret=None, **values)
    report_end(work.task)
    # Query before the commit, while the row is locked: a claim that found this task running is over by then, so its
    # task is found here, and a later claim waits for the commit.
    work.nothing_queued = not claiming.can_block_others(work.task)
    session.commit()
    log.info("task_ended", status=status)


def report_end(task: Task) -> None:
    """Record a message in the inboxes of those who may see the task. An error there is only logged."""
    if not is_worth_reporting(task):
        return
    try:
        with session.begin_nested():
            report_task(task)
    except DATABASE_AWAY_ERRORS:
        raise
    except Exception:
        log.exception("task_end_not_reported")


def fail(
    work: TaskContext,
    status: str,
    error: str,
    detail: str | None = None,
    outcome_unknown: bool = False,
    error_class: str | None = None,
) -> None:
    """Roll back, then end the task with the reason.

    If the outcome on the node is unknown (timeout), keep the rollback steps for a second run, because the call may take
    effect after the first one.
    """
    session.rollback()
    log.warning("task_failed", error=error, detail=detail)
    rollback_steps = work.task.rollback_steps
    try_roll_back(work)
    remaining_steps = rollback_steps if outcome_unknown else work.task.rollback_steps
    finish_failed(
        work,
        status,
        error,
        detail,
        rollback_steps=remaining_steps,
        rollback_pending=bool(remaining_steps),
        error_class=error_class,
    )


def finish_failed(work: TaskContext, status: str, error: str, detail: str | None = None, **values: Any) -> None:
    """End the task with the reason and run its failure handler. An error in that handler is only logged."""
    task_type = TASK_TYPES.get(work.task.kind)
    if task_type and task_type.on_failure:
        try:
            with session.begin_nested():
                task_type.on_failure(work.task, error)
        except Exception:
            log.exception("ending_not_told")
    session.add(TaskLog(task_id=work.task.id, message=error))
    finish(work, status, stage=message("Stopped"), error=error, error_detail=detail, **values)


def roll_back(work: TaskContext) -> None:
    """Run the rollback steps, newest first, and remove each when it is done. A missing object counts as done."""
    while work.task.rollback_steps:
        work.update()
        session.commit()
        call, *args = work.task.rollback_steps[-1]
        with suppress(NotOnNode):
            getattr(work.node, call)(*args)
        work.update(rollback_steps=work.task.rollback_steps[:-1])
        session.commit()


def try_roll_back(work: TaskContext) -> None:
    """Run the rollback steps. A step that fails stays in the row, and so do those stored before it."""
    try:
        roll_back(work)
    except (LeaseLost, *DATABASE_AWAY_ERRORS):
        raise
    except Exception as error:
        session.rollback()
        log.warning("rollback_failed", step=work.task.rollback_steps[-1], error=getattr(error, "detail", repr(error)))


def retry_rollback(work: TaskContext) -> None:
    """Run the rollback steps that an ended task has left."""
    try_roll_back(work)
    work.update(worker=None, rollback_pending=bool(work.task.rollback_steps))
    session.commit()
