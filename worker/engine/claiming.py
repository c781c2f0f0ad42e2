"""Which tasks may begin, taking one, and ringing for those that waited for it."""

from functools import cache

import structlog
from sqlalchemy import and_, bindparam, exists, func, or_, select, text
from sqlalchemy.orm import aliased

from panel.core import clock, jobs
from panel.core.db import session
from panel.models import Hypervisor, Task
from worker.engine.registry import TASK_TYPES

log = structlog.get_logger()

EXCLUSIVE_LOCKS = ("exclusive", "final")

TASK_IS_OPEN = text("tasks.status in ('pending','queued','running')")
ROLLBACK_IS_PENDING = text("(tasks.undo_left and tasks.hypervisor_id > '')")
TASK_IS_UNDER_WAY = or_(TASK_IS_OPEN, ROLLBACK_IS_PENDING)
"""In the words of the partial indexes, so that the database finds the few such rows among all that ever were."""


def claim(task_id, worker):
    """Takes a queued task, or an ended one that left something behind. None: somebody has it, it is over, or it has to
    wait. Everything of the resource that is under way is locked meanwhile, so two claims never meet."""
    others = {mate.id: mate for mate in session.scalars(select_under_way(), {"task_id": task_id})}
    row = others.pop(task_id, None)
    if row is None or row.worker or not can_begin(row, others.values()):
        return session.rollback()
    if row.open:
        if row.lock != "light":
            take_over_rollback(row, others.values())
        row.status, row.attempt, row.started_at = "running", row.attempt + 1, row.started_at or clock.now()
    row.worker, row.heartbeat_at = worker, clock.now()
    session.commit()
    return row


@cache
def select_under_way():
    resource = select(Task.resource_id).where(Task.id == bindparam("task_id")).scalar_subquery()
    mates = select(Task).where(Task.resource_id == resource, TASK_IS_UNDER_WAY).order_by(Task.id)
    return mates.with_for_update(key_share=True).execution_options(populate_existing=True)


def can_begin(row, others):
    if not row.open:  # an open task takes back what this one left
        return not any(other.open or other.worker for other in others)
    if row.kind not in TASK_TYPES:
        log.error("unknown_kind", task_id=row.id, kind=row.kind)
        return False  # a newer worker may know it
    if row.cancel_requested_at and not row.undo:
        return True
    if any(other.worker and conflicts(row, other) for other in others):
        return False
    return row.lock == "light" or row.hypervisor_id is None or not is_at_capacity(row.hypervisor_id)


def conflicts(row, other):
    """Whether the other one, which is in somebody's hands, has to be waited for."""
    alone = row.lock in EXCLUSIVE_LOCKS or other.lock in EXCLUSIVE_LOCKS or row.lock == other.lock == "storage"
    return alone or not other.open or other.kind in TASK_TYPES[row.kind].conflicts_with


def is_at_capacity(hypervisor_id):
    """Whether as many tasks as may run on the node do. One claim at a time counts."""
    heavy = select(func.count()).where(Task.hypervisor_id == hypervisor_id, Task.status == "running")
    return lock_hypervisor(hypervisor_id).max_tasks <= session.scalar(heavy.where(Task.lock != "light"))


def lock_hypervisor(hypervisor_id):
    return session.get(Hypervisor, hypervisor_id, with_for_update={"key_share": True}, populate_existing=True)


def take_over_rollback(row, others):
    """What ended tasks of the resource left behind is this one's to take back, before it leaves anything itself."""
    for other in others:
        if other.undo_left:
            row.undo, other.undo, other.undo_left = [*other.undo, *row.undo], [], False


@cache
def select_runnable():
    """The queued tasks that nothing seems to hold up, oldest first: worth ringing for. A claim looks more closely."""
    other = aliased(Task)
    met = or_(
        Task.lock.in_(EXCLUSIVE_LOCKS),
        other.lock.in_(EXCLUSIVE_LOCKS),
        and_(Task.lock == "storage", other.lock == "storage"),
    )
    held_up = exists().where(other.resource_id == Task.resource_id, other.worker.is_not(None), met)
    heavy = select(Hypervisor.id).join(Task).where(TASK_IS_OPEN, Task.status == "running", Task.lock != "light")
    full = heavy.group_by(Hypervisor.id).having(func.count() >= Hypervisor.max_tasks).correlate(None)
    free = or_(Task.lock == "light", Task.hypervisor_id.is_(None), Task.hypervisor_id.not_in(full))
    may = or_(Task.cancel_requested_at.is_not(None), and_(~held_up, free))
    return select(Task.id).where(TASK_IS_OPEN, Task.status == "queued", may).order_by(Task.queued_at)


@cache
def select_queued():
    """Whether anything waits for the resource: mostly nothing does, and this is a cheap question."""
    queued = select(Task.id).where(Task.resource_id == bindparam("resource_id"), Task.status == "queued")
    return queued.limit(1)


def has_no_queued(row):
    return session.connection().scalar(select_queued(), {"resource_id": row.resource_id}) is None


def notify_waiting(row):
    """Rings for tasks that this one may have held up."""
    mates = Task.resource_id == row.resource_id
    if row.lock == "light" and has_no_queued(row):
        return session.commit()
    if row.lock != "light" and row.hypervisor_id:
        mates = or_(mates, Task.hypervisor_id == row.hypervisor_id)
    waiting = session.scalars(select_runnable().where(mates).limit(3)).all()
    session.commit()
    for task_id in waiting:
        jobs.notify(task_id)
