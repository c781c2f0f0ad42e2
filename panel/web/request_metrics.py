"""How many requests the web processes answered and how long they took, by route family and status.

The processes of one `panel web` count in files that they share (the multiprocess mode of prometheus_client), so each of
them can report the sum, and a process that was replaced still counts.
"""

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from flask import Flask, Response, current_app, g, request

SHARED_FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
"""prometheus_client reads it when it is imported, so the functions here import it."""

DURATION_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)
"""Upper limits in seconds."""

MEMORY_FOLDER = Path("/dev/shm")
"""Parent of the folder with the shared files. They are not on a disk: processes that write to a mapped file would be
killed when the disk is full."""

FOLDER_PREFIX, LOCK_NAME = "panel-requests-", "lock"
UNKNOWN_FAMILY = "none"
"""The route family of requests for unknown addresses."""


@contextmanager
def share_between_processes(parent: Path = MEMORY_FOLDER) -> Iterator[None]:
    """Let this process, and those that it forks, count together. Must be called before `init_app`."""
    remove_abandoned_folders(parent)
    with (
        tempfile.TemporaryDirectory(prefix=FOLDER_PREFIX, dir=parent if parent.is_dir() else None) as folder,
        Path(folder, LOCK_NAME).open("w") as lock,
    ):
        fcntl.flock(lock, fcntl.LOCK_EX)  # forked processes hold it too
        os.environ[SHARED_FOLDER_VARIABLE] = folder
        import prometheus_client  # noqa: F401  (forked processes share the memory of its code)

        yield


def remove_abandoned_folders(parent: Path) -> None:
    """Remove the folders of servers that were killed: nobody holds their locks."""
    for path in parent.glob(f"{FOLDER_PREFIX}*/{LOCK_NAME}"):
        with suppress(OSError), path.open("r+") as lock:  # OSError: it is locked, gone or another user's
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path.parent)


def init_app(app: Flask) -> None:
    """Measure all requests of the application. Call it before other `after_request` functions are added, so that it
    measures after them."""
    from prometheus_client import Histogram

    app.extensions["request_durations"] = Histogram(
        "panel_http_request_duration_seconds",
        "Time from the complete request to its answer, without sending it.",
        ("family", "status"),
        registry=None,
        buckets=DURATION_BUCKETS,
    )
    app.before_request(start_timer)
    app.after_request(record_duration)


def start_timer() -> None:
    g.started_at = time.perf_counter()


def record_duration(response: Response) -> Response:
    """Count the request. Runs after everything else, also after a commit that failed, so once for each request."""
    family = request.blueprint or UNKNOWN_FAMILY
    durations = current_app.extensions["request_durations"]
    durations.labels(family, str(response.status_code)).observe(time.perf_counter() - g.started_at)
    return response


def collect() -> Iterable:
    """Return the metric families of all processes of this `panel web`."""
    from prometheus_client import CollectorRegistry
    from prometheus_client.multiprocess import MultiProcessCollector

    if SHARED_FOLDER_VARIABLE in os.environ:
        return MultiProcessCollector(CollectorRegistry()).collect()
    return current_app.extensions["request_durations"].collect()
