"""Instances that somebody watches: their guest agents are polled every few seconds.

Requests must not write to the database for this, so the list is in Redis. Without Redis no instance counts as watched,
and each agent is polled about once a minute.
"""

import time
from typing import cast

from redis import RedisError

from panel.core import clock, context
from panel.models import Instance

WATCHED_KEY = "panel:watched-instances"

WATCH_TTL_SECONDS = 60
"""How long an instance counts as watched after a page or a metrics request."""

RENEWAL_SECONDS = 20
"""Minimum interval at which a process marks the same instance again."""

MAX_MARKED_INSTANCES = 10_000
"""Maximum number of instances whose last mark a process remembers."""


def mark_watched(instance: Instance) -> None:
    """Mark the instance as watched."""
    process, now = context.current(), time.monotonic()
    if (
        instance.power != "on"
        or process.is_redis_paused()
        or now - process.marked_instances.get(instance.id, -RENEWAL_SECONDS) < RENEWAL_SECONDS
    ):
        return
    if len(process.marked_instances) >= MAX_MARKED_INSTANCES:
        process.marked_instances.clear()
    process.marked_instances[instance.id] = now
    try:
        process.redis.zadd(WATCHED_KEY, {instance.id: clock.now().timestamp() + WATCH_TTL_SECONDS})
    except (RedisError, OSError):
        process.pause_redis()
        del process.marked_instances[instance.id]


def list_watched_ids() -> list[str]:
    """Return the ids of the watched instances."""
    now = clock.now().timestamp()
    context.current().redis.zremrangebyscore(WATCHED_KEY, "-inf", now)
    ids = cast(list[bytes], context.current().redis.zrange(WATCHED_KEY, 0, -1))
    return [instance_id.decode() for instance_id in ids]
