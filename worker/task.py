"""Running tasks: claim the row, do the work step by step, and leave a true ending whatever happens.

A body may run twice: a worker that dies leaves a stale heartbeat, and the sweep hands its task to another worker. So a
body first clears what a cut-off attempt may have left, and each step that leaves something behind is preceded by
`work.undo(...)`, which is written to the row before the step begins. When the work fails for good the undo steps run,
newest first; those that the node could not answer stay in the row and are tried again by the sweep.
"""

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

import structlog
from sqlalchemy import and_, func, or_, select, update

from panel import clock, jobs
from panel.db import session
from panel.errors import Problem
from panel.models import Hypervisor, Task, TaskLog
from worker.hypervisors import node_of
from worker.nodes.base import NodeError

log = structlog.get_logger()

MAX_ATTEMPTS = 3
LEASE = timedelta(seconds=40)
"""A running task whose heartbeat is older has lost its worker."""


ALONE = ("exclusive", "final")
EXCLUDES = {
    "exclusive": (*ALONE, "storage", "light"),
    "final": (*ALONE, "storage", "light"),
    "storage": (*ALONE, "storage"),
    "light": ALONE,
}
"""Which running tasks of the same resource a task waits for."""


class Cancelled(Exception):
    """Somebody asked for the task to stop."""


class LeaseLost(Exception):
    """The row belongs to another worker by now: this one must not touch anything more."""


@dataclass(frozen=True)
class Kind:
    body: Callable
    ended_badly: Callable | None


KINDS: dict[str, Kind] = {}


def task(kind, *, ended_badly=None):
    """Registers the body of a task kind. `ended_badly(task)` runs when the task failed or was cancelled for good."""

    def register(body):
        KINDS[kind] = Kind(body, ended_badly)
        return body

    return register


class Work:
    """What a body is given: its task row, the node, and ways to report, to undo and to be interrupted."""

    def __init__(self, row: Task, worker: str):
        self.task, self.worker = row, worker

    @property
    def node(self):
        return node_of(self.task.hypervisor_id)

    def step(self, stage, progress, message=None):
        """Begins a step: what was done so far is committed, and people see the new stage. Raises when the task was
        taken away or cancelled."""
        self.update(stage=stage, progress=progress, bytes_done=None, bytes_total=None)
        session.add(TaskLog(task_id=self.task.id, message=message or stage))
        session.commit()
        if self.task.cancel_requested_at:
            raise Cancelled

    def moved(self, done, total):
        """Progress of a long transfer, in bytes."""
        self.update(bytes_done=done, bytes_total=total)
        session.commit()
        if self.task.cancel_requested_at:
            raise Cancelled

    def undo(self, call, *args):
        """Writes down how to take the next step back: a method of the node, and its arguments."""
        self.update(undo=[*self.task.undo, [call, *args]])
        session.commit()

    def update(self, **values):
        now = clock.now()
        mine = update(Task).where(Task.id == self.task.id, Task.worker == self.worker, Task.status == "running")
        found = session.execute(
            mine.values(**values, heartbeat_at=now, updated_at=now).returning(Task.cancel_requested_at)
        ).one_or_none()
        if found is None:
            session.rollback()
            raise LeaseLost
        session.refresh(self.task)


def run(task_id, worker):
    """Carries one task to its end. Returns at once when the row is not ours to take."""
    row = claim(task_id, worker)
    if row is None:
        return
    with structlog.contextvars.bound_contextvars(task_id=row.id, kind=row.kind):
        log.info("task_started", attempt=row.attempt, resource=row.resource_name)
        try:
            KINDS[row.kind].body(Work(row, worker))
            finish(row, worker, "completed", stage="Done", progress=100)
        except LeaseLost:
            log.warning("task_taken_away")
            return
        except Cancelled:
            session.rollback()
            give_up(row, worker, "cancelled", "It was cancelled.")
        except (NodeError, Problem) as error:
            session.rollback()
            log.warning("task_failed", error=str(error), detail=getattr(error, "detail", ""))
            give_up(row, worker, "failed", str(error), getattr(error, "detail", ""))
        except Exception:
            session.rollback()
            log.exception("task_crashed")
            give_up(row, worker, "failed", "Something went wrong inside the panel.", traceback.format_exc())
    ring_waiting(row)


def claim(task_id, worker):
    """Takes a queued task, or returns None: somebody has it, it is over, or it must wait for others."""
    row = session.get(Task, task_id, populate_existing=True)
    if row is None or row.status != "queued":
        return session.rollback()
    if row.hypervisor_id:  # one claim at a time on a node, so that counting is exact
        node = session.get(Hypervisor, row.hypervisor_id, with_for_update=True)
    if (row.hypervisor_id and row.lock != "light" and running_on(node) >= node.max_tasks) or held_up(row):
        return session.rollback()
    if row.lock in ALONE:  # its body clears what earlier ones left, so their undo steps must not run any more
        session.execute(update(Task).where(Task.resource_id == row.resource_id, Task.undo_left).values(undo_left=False))
    now = clock.now()
    taken = session.execute(
        update(Task)
        .where(Task.id == task_id, Task.status == "queued")
        .values(
            status="running",
            worker=worker,
            attempt=Task.attempt + 1,
            heartbeat_at=now,
            updated_at=now,
            started_at=func.coalesce(Task.started_at, now),
        )
    )
    session.commit()
    return session.get(Task, task_id, populate_existing=True) if taken.rowcount else None


def running_on(node):
    heavy = select(func.count()).where(Task.hypervisor_id == node.id, Task.status == "running", Task.lock != "light")
    return session.scalar(heavy)


def held_up(row):
    """Whether something of the same resource is under way that this task must not meet."""
    running = and_(Task.status == "running", Task.lock.in_(EXCLUDES[row.lock]))
    undoing = and_(Task.undo_left, Task.worker.startswith("undo:"), Task.heartbeat_at > clock.now() - LEASE)
    same = select(Task.id).where(Task.resource_id == row.resource_id, Task.id != row.id)
    return session.scalar(same.where(or_(running, undoing)).limit(1)) is not None


def finish(row, worker, status, **values):
    """Ends the task, if it is still ours."""
    now = clock.now()
    done = session.execute(
        update(Task)
        .where(Task.id == row.id, Task.worker == worker, Task.status == "running")
        .values(status=status, finished_at=now, updated_at=now, secret=None, **values)
        .returning(Task.id)
    ).one_or_none()
    if done is None:
        session.rollback()
        raise LeaseLost
    if status == "completed":
        session.execute(update(Task).where(Task.id == row.id).values(undo=[], error=None, error_detail=None))
    session.commit()
    log.info("task_ended", status=status)


def give_up(row, worker, status, error, detail=""):
    """Takes back what was begun, then ends the task with the reason."""
    left = take_back(row)
    if KINDS[row.kind].ended_badly:
        KINDS[row.kind].ended_badly(row, error)
    session.add(TaskLog(task_id=row.id, message=error))
    finish(
        row, worker, status, stage="Stopped", error=error, error_detail=detail or None, undo=left, undo_left=bool(left)
    )


def take_back(row):
    """Runs the undo steps, newest first, and returns those that the node did not answer."""
    session.refresh(row)
    steps = list(row.undo)
    while steps:
        call, *args = steps[-1]
        try:
            getattr(node_of(row.hypervisor_id), call)(*args)
        except NodeError as error:
            log.warning("undo_failed", step=call, detail=error.detail)
            break
        steps.pop()
    return steps


def ring_waiting(row):
    """Rings for tasks that this one may have held up."""
    same = (Task.resource_id == row.resource_id) | (Task.hypervisor_id == row.hypervisor_id)
    waiting = session.scalars(
        select(Task.id).where(Task.status == "queued", same).order_by(Task.queued_at).limit(5)
    ).all()
    session.rollback()
    for task_id in waiting:
        jobs.ring(task_id)
