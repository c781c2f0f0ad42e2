"""Running tasks: take the row, do the work step by step, and leave a true ending whatever happens.

A task may run more than once: when its worker died another one gets it. So each step that leaves something behind is
preceded by `work.undo(...)`, which is in the row before the step begins, and whoever takes a task first takes back what
is written there. When the work fails for good the undo steps run, newest first; those that the node did not answer stay
in the row, and the sweep has them tried again.

A row with a `worker` is in somebody's hands. Each claim writes a name of its own there, so one that was declared dead
and wakes up, even in the same process, finds the row no longer its own and touches nothing more.
"""

import time
import traceback
from contextlib import suppress

import structlog
from sqlalchemy import bindparam, insert, select, update
from sqlalchemy.exc import InterfaceError, OperationalError, TimeoutError
from sqlalchemy.orm import Session
from sqlalchemy.orm.attributes import set_committed_value

from panel.core import clock
from panel.core.database_errors import log_failure
from panel.core.db import session
from panel.core.errors import Problem
from panel.models import Task, TaskLog
from worker.engine import claiming
from worker.engine.registry import TASK_TYPES
from worker.nodes.base import Missing, NodeError, Unreachable
from worker.sync.node_sync import connect_node

log = structlog.get_logger()

TASK_WAIT_INTERVAL_SECONDS = 0.5
"""Seconds between two looks of a task that waits."""

DATABASE_AWAY_ERRORS = (OperationalError, InterfaceError, TimeoutError)


class Cancelled(Exception):
    """Somebody asked for the task to stop."""


class LeaseLost(Exception):
    """The row belongs to another worker by now: this one must not touch anything more."""


class TaskContext:
    """What a body is given: its task row, the node, and ways to report, to undo and to be interrupted."""

    def __init__(self, row: Task, worker: str):
        self.task, self.worker = row, worker
        self.database, self.next_progress_write_at = session.get_bind(), 0.0
        self.nothing_queued, self.highest_progress = False, 0

    @property
    def node(self):
        return connect_node(self.task.hypervisor_id)

    def step(self, stage, progress):
        """Begins a step: what was done so far is committed, and people see the new stage. Raises when the task was
        taken away or cancelled."""
        session.connection().execute(INSERT_LOG, {"task_id": self.task.id, "message": stage})
        self.highest_progress = max(
            self.highest_progress, progress
        )  # steps that several kinds share know only where they begin
        cancelled = self.update(stage=stage, progress=self.highest_progress, bytes_done=None, bytes_total=None)
        session.commit()
        if cancelled:
            raise Cancelled

    def step_exclusive(self, stage, progress):
        """The same, but only one task of the node at a time is in this stage: the others wait for it to go on."""
        if not self.turn(stage):
            self.step(f"Waiting for another task: {stage}", progress)
            while not self.turn(stage):
                self.check()
                time.sleep(TASK_WAIT_INTERVAL_SECONDS)
        self.step(stage, progress)

    def turn(self, stage):
        claiming.lock_hypervisor(self.task.hypervisor_id)
        there = select(Task.id).where(Task.hypervisor_id == self.task.hypervisor_id, Task.status == "running")
        return session.scalar(there.where(Task.stage == stage, Task.id != self.task.id).limit(1)) is None

    def check(self):
        """Raises when the task was taken away or cancelled: a cheap look for a step that waits."""
        mine = select(Task.cancel_requested_at).where(Task.id == self.task.id, Task.worker == self.worker)
        self.check_lease(session.execute(mine).one_or_none())
        session.commit()

    def report_progress(self, done, total):
        """Notes the bytes of a transfer, at most once a second, and stops it as `check` does. A driver may call this
        from a thread of its own, so it has a session of its own."""
        if done < total and time.monotonic() < self.next_progress_write_at:
            return
        self.next_progress_write_at = time.monotonic() + 1
        with Session(self.database, join_transaction_mode="create_savepoint") as apart:
            mine = update(Task).where(Task.id == self.task.id, Task.worker == self.worker)
            noted = mine.values(bytes_done=done, bytes_total=total).returning(Task.cancel_requested_at)
            row = apart.execute(noted).one_or_none()
            apart.commit()
        self.check_lease(row)

    def check_lease(self, row):
        if row is None:
            raise LeaseLost
        if row.cancel_requested_at:
            raise Cancelled

    def undo(self, call, *args):
        """Writes down how to take the next step back: a method of the node, and its arguments."""
        self.update(undo=[*self.task.undo, [call, *args]])
        session.commit()

    def update(self, **values):
        """Writes into the row, if it is still ours. Returns the time of a request to stop, if there is one."""
        now = clock.now()
        values |= {"heartbeat_at": now, "updated_at": now}
        mine = {"mine": self.task.id, "held_by": self.worker}
        row = session.connection().execute(UPDATE_IF_OWNED, mine | values).one_or_none()
        if row is None:
            raise LeaseLost
        for name, value in values.items():
            set_committed_value(self.task, name, value)
        return row.cancel_requested_at


task_columns = Task.__table__.c
UPDATE_IF_OWNED = (
    update(Task.__table__)
    .where(task_columns.id == bindparam("mine"), task_columns.worker == bindparam("held_by"))
    .returning(task_columns.cancel_requested_at)
)
INSERT_LOG = insert(TaskLog.__table__)
"""What every task does several times is told to the database without the session's bookkeeping."""


def run(task_id, worker):
    """Carries one task to its end. Returns at once when the row is not ours to take. `worker` must be a new name."""
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
            log.warning("task_taken_away")
            return
        except DATABASE_AWAY_ERRORS as error:
            session.rollback()
            log_failure(log, "task_dropped", error)  # nothing can be written: the sweep hands it to another worker
            return
    if not work.nothing_queued:
        claiming.notify_waiting(row)


def execute(work):
    try:
        roll_back(work)
        if work.task.cancel_requested_at:
            raise Cancelled
        TASK_TYPES[work.task.kind].body(work)
        finish(work, "completed", stage="Done", progress=100, undo=[])
    except Cancelled:
        closed = work.task.error  # an operator gave the task up: that is a failure, and has its words already
        fail(work, "failed" if closed else "cancelled", closed or "It was cancelled.")
    except (NodeError, Problem) as error:
        detail, unsure = getattr(error, "detail", None), isinstance(error, Unreachable)
        fail(work, "failed", str(error), detail, unsure, error_class=type(error).__name__)
    except (LeaseLost, *DATABASE_AWAY_ERRORS):
        raise
    except Exception as error:
        session.rollback()
        log.exception("task_crashed")
        what = type(error).__name__[:64]
        fail(work, "failed", "Something went wrong inside the panel.", traceback.format_exc(), error_class=what)


def finish(work, status, **values):
    """Ends the task, if it is still ours, with what the body changed since its last step."""
    work.update(status=status, worker=None, finished_at=clock.now(), secret=None, **values)
    # Asked while the row is locked: a claim that did not see it end yet comes before that, or waits for it.
    work.nothing_queued = work.task.lock == "light" and claiming.has_no_queued(work.task)
    session.commit()
    log.info("task_ended", status=status)


def fail(work, status, error, detail=None, outcome_unknown=False, error_class=None):
    """Takes back what was begun, then ends the task with the reason. When it is unsure what the node did, the steps are
    kept and taken once more later: a call that was given up may still have had its effect after they ran."""
    session.rollback()
    log.warning("task_given_up", error=error, detail=detail)
    begun = work.task.undo
    try_roll_back(work)
    left = begun if outcome_unknown else work.task.undo
    finish_failed(work, status, error, detail, undo=left, undo_left=bool(left), error_class=error_class)


def finish_failed(work, status, error, detail=None, **values):
    """Ends the task with the reason, and tells its resource. A fault in the telling does not keep it from ending."""
    kind = TASK_TYPES.get(work.task.kind)
    if kind and kind.on_failure:
        try:
            with session.begin_nested():
                kind.on_failure(work.task, error)
        except Exception:
            log.exception("ending_not_told")
    session.add(TaskLog(task_id=work.task.id, message=error))
    finish(work, status, stage="Stopped", error=error, error_detail=detail, **values)


def roll_back(work):
    """Runs the undo steps, newest first. Each is struck out when it is done; what is not there any more is as good."""
    while work.task.undo:
        work.update()
        call, *args = work.task.undo[-1]
        with suppress(Missing):
            getattr(work.node, call)(*args)
        work.update(undo=work.task.undo[:-1])
        session.commit()


def try_roll_back(work):
    """What cannot be taken back now stays in the row."""
    try:
        roll_back(work)
    except (LeaseLost, *DATABASE_AWAY_ERRORS):
        raise
    except Exception as error:
        session.rollback()
        log.warning("undo_failed", step=work.task.undo[-1], error=getattr(error, "detail", repr(error)))


def retry_rollback(work):
    """Once more what could not be taken back when the task ended."""
    try_roll_back(work)
    work.update(worker=None, undo_left=bool(work.task.undo))
    session.commit()
