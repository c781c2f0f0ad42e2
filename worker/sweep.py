"""Mending what was lost: bells that nobody heard, tasks whose worker died, undo steps that the node did not answer."""

from datetime import timedelta

import structlog
from sqlalchemy import select, update

from panel import clock, jobs
from panel.db import session
from panel.models import Hypervisor, Task, TaskLog
from panel.models.tasks import OPEN
from worker.task import LEASE, MAX_ATTEMPTS, give_up, ring_waiting, take_back

log = structlog.get_logger()

UNHEARD = timedelta(seconds=5)
"""How long a task may wait before its bell is taken for lost."""


def sweep():
    """Runs every few seconds, on any number of workers at once: each repair is one conditional change of a row."""
    settle_lost()
    ring_unheard()
    finish_undo()


def settle_lost():
    """Hands tasks whose worker went silent to another one; gives up those that lost too many workers."""
    silent = select(Task).where(Task.status == "running", Task.heartbeat_at < clock.now() - LEASE)
    for row in session.scalars(silent).all():
        log.warning("worker_lost", task_id=row.id, kind=row.kind, attempt=row.attempt)
        name = f"sweep:{row.worker}"
        mine = update(Task).where(Task.id == row.id, Task.worker == row.worker, Task.status == "running")
        if row.attempt < MAX_ATTEMPTS:
            again = mine.values(
                status="queued", worker=None, stage="Waiting: the worker was lost", queued_at=clock.now()
            )
            if session.execute(again.where(Task.heartbeat_at == row.heartbeat_at)).rowcount:
                session.add(TaskLog(task_id=row.id, message="The worker was lost. Another one begins anew."))
            session.commit()
            jobs.ring(row.id)
        elif session.execute(mine.values(worker=name, heartbeat_at=clock.now())).rowcount:
            session.commit()
            session.refresh(row)
            give_up(row, name, "failed", "The workers that tried were lost. Try again.", "three workers died")
            ring_waiting(row)
        else:
            session.rollback()


def ring_unheard():
    waiting = select(Task.id).where(Task.status == "queued", Task.queued_at < clock.now() - UNHEARD)
    ids = session.scalars(waiting.order_by(Task.queued_at).limit(200)).all()
    session.commit()
    for task_id in ids:
        jobs.ring(task_id)


def finish_undo():
    """Tries the undo steps of ended tasks again, on nodes that answer by now."""
    left = select(Task).join(Hypervisor, Hypervisor.id == Task.hypervisor_id).where(Task.undo_left)
    for row in session.scalars(left.where(Hypervisor.status == "up").limit(20)).all():
        session.commit()
        if begin_undo(row):
            row.undo = take_back(row)
            row.undo_left, row.worker = bool(row.undo), None
            session.commit()


def begin_undo(row):
    """Keeps other tasks of the resource away while steps are taken back, unless one is already there."""
    session.get(Hypervisor, row.hypervisor_id, with_for_update=True)
    if session.scalar(select(Task.id).where(Task.resource_id == row.resource_id, Task.status.in_(OPEN)).limit(1)):
        return session.rollback()
    mine = update(Task).where(Task.id == row.id, Task.undo_left, Task.worker.is_distinct_from("undo:now"))
    taken = session.execute(mine.values(worker="undo:now", heartbeat_at=clock.now())).rowcount
    session.commit()
    return taken
