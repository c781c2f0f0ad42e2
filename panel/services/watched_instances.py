"""Instances that somebody watches: their guest agents are polled every few seconds.

Requests must not write to the database for this, so the list is in Redis. Without Redis no instance counts as watched,
and each agent is polled about once a minute.
"""

import time

from redis import RedisError

from panel.core import clock, jobs

WATCHED_KEY = "panel:watched-instances"

WATCH_TTL_SECONDS = 60
"""How long an instance counts as watched after a page or a metrics request."""

RENEWAL_SECONDS = 20
"""Minimum interval at which a process marks the same instance again."""

REDIS_PAUSE_SECONDS = 5
"""How long Redis is not asked again after an error."""

MAX_MARKED_INSTANCES = 10_000
"""Maximum number of instances whose last mark a process remembers."""

last_marked_at: dict[str, float] = {}
"""By instance id: when this process last marked it (monotonic)."""

redis_away_until = 0.0


def mark(instance):
    """Mark the instance as watched."""
    global redis_away_until
    now = time.monotonic()
    if (
        instance.power != "on"
        or now < redis_away_until
        or now - last_marked_at.get(instance.id, -RENEWAL_SECONDS) < RENEWAL_SECONDS
    ):
        return
    if len(last_marked_at) >= MAX_MARKED_INSTANCES:
        last_marked_at.clear()
    last_marked_at[instance.id] = now
    try:
        jobs.connection.zadd(WATCHED_KEY, {instance.id: clock.now().timestamp() + WATCH_TTL_SECONDS})
    except (RedisError, OSError):
        redis_away_until = time.monotonic() + REDIS_PAUSE_SECONDS
        del last_marked_at[instance.id]


def list_watched_ids():
    """Return the ids of the watched instances."""
    now = clock.now().timestamp()
    jobs.connection.zremrangebyscore(WATCHED_KEY, "-inf", now)
    return [instance_id.decode() for instance_id in jobs.connection.zrange(WATCHED_KEY, 0, -1)]
