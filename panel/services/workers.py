"""Which worker processes are alive. Each says so in Redis every few seconds."""

from datetime import timedelta

from panel.core import clock, jobs

BEAT = timedelta(seconds=5)
SILENCE = 4 * BEAT
"""A worker that was not heard for so long is gone."""

HEARD = "panel:workers"


def heard(name):
    """Notes that the worker is alive, and drops those that have gone."""
    now = clock.now()
    with jobs.connection.pipeline() as pipeline:
        pipeline.zadd(HEARD, {name: now.timestamp()})
        pipeline.zremrangebyscore(HEARD, "-inf", (now - SILENCE).timestamp())
        pipeline.execute()


def left(name):
    """Notes that the worker ended in good order."""
    jobs.connection.zrem(HEARD, name)


def alive():
    """How many there are."""
    return jobs.connection.zcount(HEARD, (clock.now() - SILENCE).timestamp(), "+inf")
