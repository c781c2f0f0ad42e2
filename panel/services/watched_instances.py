"""The instances that somebody looks at: their guest agents are asked every few seconds.

A request that only reads writes nothing to the database, so the list is in Redis. Without Redis nobody counts as
looking, and each agent is asked about once a minute, as all are.
"""

import time

from redis import RedisError

from panel.core import clock, jobs

WATCHED_KEY = "panel:watched-instances"

WATCH_TTL_SECONDS = 60
"""How long an instance counts as watched after a page or a metrics request."""

RENEWAL_SECONDS = 20
"""How often a process marks the same instance at most."""

REDIS_PAUSE_SECONDS = 5
"""How long a Redis that did not answer is not asked again."""

MAX_MARKED_INSTANCES = 10_000
"""Instances whose last mark a process remembers."""

last_marked_at: dict[str, float] = {}
"""By instance id: when this process last marked it (monotonic)."""

redis_away_until = 0.0


def mark(instance):
    """Notes that somebody looks at the instance."""
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
    """The ids of the instances that are watched now."""
    now = clock.now().timestamp()
    jobs.connection.zremrangebyscore(WATCHED_KEY, "-inf", now)
    return [found.decode() for found in jobs.connection.zrange(WATCHED_KEY, 0, -1)]
