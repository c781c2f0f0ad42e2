"""When the scheduler last started each periodic job: in Redis, written by the scheduler that leads."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from panel.core import clock, context

SCHEDULE_KEY = "panel:schedule-runs"
MIN_RETENTION = timedelta(days=1)
MAX_ERROR_CHARACTERS = 500


def record(name: str, seconds: float, *, runs_in: str, error: str | None = None) -> None:
    """Record that a job was started that is started every so many seconds. `runs_in` is `scheduler` or `worker`."""
    run = {"at": clock.now().timestamp(), "seconds": seconds, "runs_in": runs_in, "error": error}
    context.current().redis.hset(SCHEDULE_KEY, name, json.dumps(run))


def listing() -> list[dict[str, Any]]:
    """Return all jobs by name, without those that former releases had. Raise RedisError or OSError without Redis."""
    stored = cast(dict[bytes, bytes], context.current().redis.hgetall(SCHEDULE_KEY))
    jobs = [describe(name.decode(), json.loads(text)) for name, text in sorted(stored.items())]
    return [job for job in jobs if is_current(job)]


def describe(name: str, run: dict[str, Any]) -> dict[str, Any]:
    started_at = datetime.fromtimestamp(run["at"], UTC)
    return {
        "command": name,
        "interval": run["seconds"],
        "runs_in": run["runs_in"],
        "last_started_at": started_at,
        "next_at": started_at + timedelta(seconds=run["seconds"]),
        "last_error": (run["error"] or "")[:MAX_ERROR_CHARACTERS] or None,
    }


def is_current(job: dict[str, Any]) -> bool:
    retention = max(MIN_RETENTION, 3 * timedelta(seconds=job["interval"]))
    return clock.now() - job["last_started_at"] <= retention
