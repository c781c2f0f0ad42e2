"""Which worker processes are alive, by heartbeats in Redis."""

from datetime import timedelta

from panel.core import clock, context

HEARTBEAT_INTERVAL = timedelta(seconds=5)
WORKER_LOST_AFTER = 4 * HEARTBEAT_INTERVAL
"""A worker without a heartbeat for so long is lost."""

LIVENESS_KEY = "panel:workers"


def record_heartbeat(name: str) -> None:
    """Record that the worker is alive, and remove lost ones."""
    now = clock.now()
    with context.current().redis.pipeline() as pipeline:
        pipeline.zadd(LIVENESS_KEY, {name: now.timestamp()})
        pipeline.zremrangebyscore(LIVENESS_KEY, "-inf", (now - WORKER_LOST_AFTER).timestamp())
        pipeline.execute()


def remove(name: str) -> None:
    """Remove a worker that ended regularly."""
    context.current().redis.zrem(LIVENESS_KEY, name)


def count_alive() -> int:
    """Return the number of workers that are alive."""
    return context.current().redis.zcount(LIVENESS_KEY, (clock.now() - WORKER_LOST_AFTER).timestamp(), "+inf")
