"""Handing work over: a task row now, a bell for a worker once the transaction has committed.

The row is the truth. A bell that is lost (Redis away, emptied) costs time, never work: a sweep rings again for rows
that nobody took. Two bells for one row are harmless, because a worker claims the row first.
"""

import time
from math import ceil

import structlog
from redis import Redis, RedisError
from redis.backoff import NoBackoff
from redis.retry import Retry
from rq import Queue
from sqlalchemy.exc import IntegrityError

from panel.core.db import on_commit, session
from panel.core.errors import Conflict
from panel.models import Task

log = structlog.get_logger()
connection: Redis | None = None
can_be_heard = True
"""False in a command beside which no worker can run."""

NOTIFY_BATCH_SIZE = 16
"""Tasks that one bell tells of at most, and of how many bells a command makes before they tell of several: one hand of
one worker takes what a bell tells of, and no hand is to be idle."""

WAIT_POLL_INTERVAL_SECONDS = 0.05
"""Seconds between two looks at a task that somebody waits for."""


def connect(redis_url):
    """Names the Redis that carries the bells. A dead one must not hold up a request: no retries, short waits."""
    global connection, can_be_heard
    can_be_heard = True
    connection = Redis.from_url(redis_url, socket_timeout=2, socket_connect_timeout=2, retry=Retry(NoBackoff(), 0))
    return connection


def queue():
    return Queue("tasks", connection=connection, serializer="json")


def notify(*task_ids):
    """Asks a worker to look at tasks."""
    enqueue_call("worker.engine.runner.run", *task_ids)


def enqueue_call(function, *args):
    if not can_be_heard:
        return
    try:
        queue().enqueue(
            "worker.engine.pool.on_message", function, *args, result_ttl=0, failure_ttl=3600, job_timeout=-1
        )
    except (RedisError, OSError) as error:
        log.warning("bell_lost", function=function, error=str(error))


def enqueue(kind, resource_type, resource, *, lock, actor, hypervisor_id=None, arguments=None, secret=None):
    """Records a task for a resource. Raises `task_running` when the resource has an open exclusive one already."""
    task = Task(
        kind=kind,
        resource_type=resource_type,
        resource_id=resource.id,
        resource_name=resource.name,
        account_id=getattr(resource, "account_id", None),
        hypervisor_id=hypervisor_id,
        lock=lock,
        actor=actor,
        arguments=arguments or {},
        secret=secret,
    )
    try:
        with session.begin_nested():
            session.add(task)
    except IntegrityError:
        raise Conflict(
            "Another task is running on this resource. Wait until it has ended.", reason="task_running"
        ) from None
    notify_after_commit(task.id)
    return task


class PendingNotifications:
    """The tasks of one transaction: however many it makes, workers are rung a few times."""

    def __init__(self):
        self.task_ids = []

    def __call__(self):
        each = min(NOTIFY_BATCH_SIZE, ceil(len(self.task_ids) / NOTIFY_BATCH_SIZE))
        for start in range(0, len(self.task_ids), each):
            notify(*self.task_ids[start : start + each])


def notify_after_commit(task_id):
    """Rings once this transaction has committed."""
    waiting = session.info.get("on_commit", [])
    bells = next((call for call in waiting if isinstance(call, PendingNotifications)), None)
    if bells is None:
        on_commit(bells := PendingNotifications())
    bells.task_ids.append(task_id)


def has_queued_tasks():
    """Whether this transaction has handed over a task, so that what was asked for is not done yet."""
    return any(isinstance(call, PendingNotifications) and call.task_ids for call in session.info.get("on_commit", []))


def wait_for_task(task, seconds):
    """Waits for the end of a task. Returns its row as it is when the time is over at the latest."""
    return wait_for(task, lambda: not task.open, seconds)


def wait_for(row, is_done, seconds):
    """Commits, so that the work can begin, and waits until the row shows that it is `done()`. Returns the row as it is
    when the time is over at the latest. Only for what takes a moment and whose caller can do nothing without it."""

    def refreshed():
        session.refresh(row)
        session.commit()
        return is_done()

    session.commit()
    wait_until(refreshed, seconds)
    return row


def wait_until(is_done, seconds):
    """Waits until `is_done()`, which only reads. Returns whether it was, when the time is over at the latest."""
    until = time.monotonic() + seconds
    while True:
        found = is_done()
        session.commit()
        if found or time.monotonic() > until:
            return found
        time.sleep(WAIT_POLL_INTERVAL_SECONDS)
