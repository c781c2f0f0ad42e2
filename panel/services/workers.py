"""Which worker processes are alive. Each says so in Redis every few seconds."""

from datetime import timedelta

from panel.core import clock, jobs

HEARTBEAT_INTERVAL = timedelta(seconds=5)
WORKER_LOST_AFTER = 4 * HEARTBEAT_INTERVAL
"""A worker that was not heard for so long is gone."""

LIVENESS_KEY = "panel:workers"


def record_heartbeat(name):
    """Notes that the worker is alive, and drops those that have gone."""
    now = clock.now()
    with jobs.connection.pipeline() as pipeline:
        pipeline.zadd(LIVENESS_KEY, {name: now.timestamp()})
        pipeline.zremrangebyscore(LIVENESS_KEY, "-inf", (now - WORKER_LOST_AFTER).timestamp())
        pipeline.execute()


def remove(name):
    """Notes that the worker ended in good order."""
    jobs.connection.zrem(LIVENESS_KEY, name)


def count_alive():
    """How many there are."""
    return jobs.connection.zcount(LIVENESS_KEY, (clock.now() - WORKER_LOST_AFTER).timestamp(), "+inf")
