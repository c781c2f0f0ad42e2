"""The task queue: a task row is recorded in the transaction, and a worker is notified over Redis after its commit.

The row is authoritative. If a notification is lost (Redis down or emptied), no work is lost: the reaper notifies again
for unclaimed rows. Two notifications for one row are harmless, because a worker claims the row first.
"""

from math import ceil
from typing import Any

import structlog
from redis import Redis, RedisError
from redis.backoff import NoBackoff
from redis.retry import Retry
from rq import Queue
from sqlalchemy.exc import IntegrityError

from panel.core import context
from panel.core.db import on_commit, session
from panel.core.errors import Conflict
from panel.core.messages import message
from panel.models import Task

log = structlog.get_logger()

NOTIFY_BATCH_SIZE = 16
"""The most task ids in one notification, and the number of notifications up to which each has only one id. One worker
thread handles a whole notification, so small numbers of tasks are spread over threads."""


def create_client(redis_url: str) -> Redis:
    """Return a Redis client without retries and with short timeouts, so that a dead Redis does not delay requests."""
    return Redis.from_url(redis_url, socket_timeout=2, socket_connect_timeout=2, retry=Retry(NoBackoff(), 0))


def queue() -> Queue:
    return Queue("tasks", connection=context.current().redis, serializer="json")


def notify(*task_ids: str) -> None:
    """Send a notification that asks a worker to claim these tasks."""
    enqueue_call("worker.engine.runner.run", *task_ids)


def enqueue_call(function: str, *args: Any) -> None:
    if not context.current().can_notify:
        return
    try:
        queue().enqueue(
            "worker.engine.pool.on_message", function, *args, result_ttl=0, failure_ttl=3600, job_timeout=-1
        )
    except (RedisError, OSError) as error:
        log.warning("wakeup_not_sent", function=function, error=str(error))


def enqueue(
    kind: str,
    resource_type: str,
    resource: Any,
    *,
    lock: str,
    actor: str,
    hypervisor_id: str | None = None,
    arguments: dict[str, Any] | None = None,
    secret: str | None = None,
) -> Task:
    """Record a task for a resource and notify a worker after the commit. Raise Conflict `task_running` when the
    resource already has an open exclusive task."""
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
            message("Another task is in progress. Try again when it has finished."), reason="task_running"
        ) from None
    notify_after_commit(task.id)
    return task


class PendingNotifications:
    """The tasks of one transaction. Called after the commit; sends one notification for several tasks when there are
    many."""

    def __init__(self) -> None:
        self.task_ids: list[str] = []

    def __call__(self) -> None:
        batch_size = min(NOTIFY_BATCH_SIZE, ceil(len(self.task_ids) / NOTIFY_BATCH_SIZE))
        for start in range(0, len(self.task_ids), batch_size):
            notify(*self.task_ids[start : start + batch_size])


def notify_after_commit(task_id: str) -> None:
    """Notify a worker of the task after this transaction commits."""
    callbacks = session.info.get("on_commit", [])
    pending = next((call for call in callbacks if isinstance(call, PendingNotifications)), None)
    if pending is None:
        on_commit(pending := PendingNotifications())
    pending.task_ids.append(task_id)


def has_queued_tasks() -> bool:
    """Return whether this transaction has enqueued a task, so that the requested change is not done yet."""
    return any(isinstance(call, PendingNotifications) and call.task_ids for call in session.info.get("on_commit", []))
