"""Which tasks may begin, claiming one, and notifying tasks that waited for another one."""

from collections.abc import Collection
from functools import cache

import structlog
from sqlalchemy import Select, and_, bindparam, exists, func, or_, select, text
from sqlalchemy.orm import aliased

from panel.core import clock, jobs
from panel.core.db import lock_row, session, with_lock
from panel.models import Hypervisor, Task
from panel.models.tasks import BACKUP_TRANSFER_TASK_KINDS
from panel.services import settings
from worker.engine.registry import TASK_TYPES

log = structlog.get_logger()

EXCLUSIVE_LOCKS = ("exclusive", "final")

TASK_IS_OPEN = text("tasks.status in ('pending','queued','running')")
ROLLBACK_IS_PENDING = text("(tasks.rollback_pending and tasks.hypervisor_id > '')")
TASK_IS_UNDER_WAY = or_(TASK_IS_OPEN, ROLLBACK_IS_PENDING)
"""Written exactly like the condition of the partial indexes, so that the database uses them."""


def claim(task_id: str, worker: str) -> Task | None:
    """Claim a queued task, or an ended one that has rollback steps left. Return its row.

    Returns None when another worker has it, when it is over, or when it has to wait. All open tasks of the resource are
    locked (SELECT … FOR UPDATE), which serializes claims.
    """
    others = {other.id: other for other in session.scalars(select_open_tasks(), {"task_id": task_id})}
    row = others.pop(task_id, None)
    if row is None or row.worker or not can_begin(row, others.values()):
        session.rollback()
        return None
    if row.open:
        if row.lock != "light":
            take_over_rollback(row, others.values())
        row.status, row.attempt, row.started_at = "running", row.attempt + 1, row.started_at or clock.now()
    row.worker, row.heartbeat_at = worker, clock.now()
    session.commit()
    return row


@cache
def select_open_tasks() -> Select[Task]:
    resource = select(Task.resource_id).where(Task.id == bindparam("task_id")).scalar_subquery()
    query = select(Task).where(Task.resource_id == resource, TASK_IS_UNDER_WAY).order_by(Task.id)
    return with_lock(query, key_share=True)


def can_begin(row: Task, others: Collection[Task]) -> bool:
    if not row.open:  # an open task takes over the rollback steps of this one
        return not any(other.open or other.worker for other in others)
    if row.kind not in TASK_TYPES:
        log.error("unknown_kind", task_id=row.id, kind=row.kind)
        return False  # a newer worker may know it
    if row.cancel_requested_at and not row.rollback_steps:
        return True
    if any(other.worker and has_conflict(row, other) for other in others):
        return False
    if row.kind in BACKUP_TRANSFER_TASK_KINDS and not can_transfer(row):
        return False
    return row.lock == "light" or row.hypervisor_id is None or not is_at_capacity(row.hypervisor_id)


def can_transfer(row: Task) -> bool:
    """Return whether a backup or restore may begin: the volume's task before it has ended, for which it would wait
    while it counts, and the node runs fewer of them than it may."""
    earlier = select(Task.id).where(Task.id == row.arguments.get("after"), TASK_IS_OPEN)
    if session.scalar(earlier) is not None:
        return False
    lock_hypervisor(row.hypervisor_id)
    conditions = Task.hypervisor_id == row.hypervisor_id, Task.status == "running"
    running = select(func.count()).where(*conditions, Task.kind.in_(BACKUP_TRANSFER_TASK_KINDS))
    return session.scalars(running).one() < settings.get().backup_tasks_per_hypervisor


def has_conflict(row: Task, other: Task) -> bool:
    """Return whether `row` has to wait for `other`, which another worker has claimed."""
    is_exclusive = row.lock in EXCLUSIVE_LOCKS or other.lock in EXCLUSIVE_LOCKS or row.lock == other.lock == "storage"
    return is_exclusive or not other.open or other.kind in TASK_TYPES[row.kind].conflicts_with


def is_at_capacity(hypervisor_id: str) -> bool:
    """Return whether the node runs as many tasks as it may. Locks the hypervisor, so that claims count in turn."""
    running = select(func.count()).where(Task.hypervisor_id == hypervisor_id, Task.status == "running")
    hypervisor = lock_hypervisor(hypervisor_id)
    if hypervisor is None:  # removed since the task was read: its calls are refused
        return False
    return hypervisor.max_tasks <= session.scalars(running.where(Task.lock != "light")).one()


def lock_hypervisor(hypervisor_id: str | None) -> Hypervisor | None:
    return lock_row(Hypervisor, hypervisor_id) if hypervisor_id else None


def take_over_rollback(row: Task, others: Collection[Task]) -> None:
    """Move the rollback steps of ended tasks of the resource to this task, which runs them before its own work."""
    for other in others:
        if other.rollback_pending:
            row.rollback_steps, other.rollback_steps, other.rollback_pending = (
                [*other.rollback_steps, *row.rollback_steps],
                [],
                False,
            )


def select_runnable() -> Select[str]:
    """Select the queued tasks that probably can begin, oldest first. A claim checks more closely."""
    return select_runnable_within(settings.get().backup_tasks_per_hypervisor)


@cache
def select_runnable_within(transfer_limit: int) -> Select[str]:
    other = aliased(Task)
    locks_conflict = or_(
        Task.lock.in_(EXCLUSIVE_LOCKS),
        other.lock.in_(EXCLUSIVE_LOCKS),
        and_(Task.lock == "storage", other.lock == "storage"),
    )
    is_blocked = exists().where(other.resource_id == Task.resource_id, other.worker.is_not(None), locks_conflict)
    hypervisors = select(Hypervisor.id).join(Task).where(TASK_IS_OPEN, Task.status == "running", Task.lock != "light")
    full_ids = hypervisors.group_by(Hypervisor.id).having(func.count() >= Hypervisor.max_tasks).correlate(None)
    has_capacity = or_(Task.lock == "light", Task.hypervisor_id.is_(None), Task.hypervisor_id.not_in(full_ids))
    is_transfer = Task.kind.in_(BACKUP_TRANSFER_TASK_KINDS)
    transferring = select(Task.hypervisor_id).where(
        TASK_IS_OPEN, Task.status == "running", is_transfer, Task.hypervisor_id.is_not(None)
    )
    busy_ids = transferring.group_by(Task.hypervisor_id).having(func.count() >= transfer_limit).correlate(None)
    may_transfer = or_(~is_transfer, Task.hypervisor_id.not_in(busy_ids))
    can_run = or_(Task.cancel_requested_at.is_not(None), and_(~is_blocked, has_capacity, may_transfer))
    return select(Task.id).where(TASK_IS_OPEN, Task.status == "queued", can_run).order_by(Task.queued_at)


@cache
def select_queued() -> Select[str]:
    """Select one queued task of the resource. A cheap check before `select_runnable`."""
    query = select(Task.id).where(Task.resource_id == bindparam("resource_id"), Task.status == "queued")
    return query.limit(1)


def has_no_queued(row: Task) -> bool:
    return session.connection().scalar(select_queued(), {"resource_id": row.resource_id}) is None


def frees_capacity(row: Task) -> bool:
    """Return whether other tasks of the node may begin when this one has ended."""
    return row.lock != "light" or row.kind in BACKUP_TRANSFER_TASK_KINDS


def can_block_others(row: Task) -> bool:
    """Return whether tasks may wait for this one. That of a volume may be a task of an instance."""
    return frees_capacity(row) or row.resource_type == "volume" or not has_no_queued(row)


def notify_waiting(row: Task) -> None:
    """Notify for tasks that may have waited for this one, at most three."""
    if not can_block_others(row):
        return session.commit()
    condition = Task.resource_id == row.resource_id
    if row.resource_type == "volume":
        condition = or_(condition, Task.arguments["after"].as_string() == row.id)
    if frees_capacity(row) and row.hypervisor_id:
        condition = or_(condition, Task.hypervisor_id == row.hypervisor_id)
    waiting = session.scalars(select_runnable().where(condition).limit(3)).all()
    session.commit()
    for task_id in waiting:
        jobs.notify(task_id)
