"""Which worker processes, and routers of sandboxes, are alive: by heartbeats in Redis."""

from datetime import timedelta
from typing import cast

from panel.core import clock, context

HEARTBEAT_INTERVAL = timedelta(seconds=5)
WORKER_LOST_AFTER = 4 * HEARTBEAT_INTERVAL
"""A process without a heartbeat for so long is lost."""

LIVENESS_KEY, ROUTERS_KEY = "panel:workers", "panel:sandbox-routers"


def record_heartbeat(name: str, key: str = LIVENESS_KEY) -> None:
    """Record that the process is alive, and remove lost ones."""
    now = clock.now()
    with context.current().redis.pipeline() as pipeline:
        pipeline.zadd(key, {name: now.timestamp()})
        pipeline.zremrangebyscore(key, "-inf", (now - WORKER_LOST_AFTER).timestamp())
        pipeline.execute()


def remove(name: str, key: str = LIVENESS_KEY) -> None:
    """Remove a process that ended regularly."""
    context.current().redis.zrem(key, name)


def count_alive() -> int:
    """Return the number of workers that are alive."""
    return context.current().redis.zcount(LIVENESS_KEY, (clock.now() - WORKER_LOST_AFTER).timestamp(), "+inf")


def list_alive(key: str) -> list[str]:
    """Return the names of the processes that are alive, in order."""
    since = (clock.now() - WORKER_LOST_AFTER).timestamp()
    names = cast(list[bytes], context.current().redis.zrangebyscore(key, since, "+inf"))
    return sorted(name.decode() for name in names)
