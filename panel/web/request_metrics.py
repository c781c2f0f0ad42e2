"""How many requests the web processes answered and how long they took, by route family and status.

The processes of one `panel web` count in files that they share (the multiprocess mode of prometheus_client), so each of
them can report the sum, and a process that was replaced still counts.
"""

import os
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from flask import Flask, Response, current_app, g, request

SHARED_FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
"""prometheus_client reads it when it is imported, so the functions here import it."""

DURATION_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)
"""Upper limits in seconds."""

UNKNOWN_FAMILY = "none"
"""The route family of requests for unknown addresses."""


@contextmanager
def share_between_processes() -> Iterator[None]:
    """Let this process, and those that it forks, count together. Must be called before `init_app`."""
    with tempfile.TemporaryDirectory(prefix="panel-requests-") as folder:
        os.environ[SHARED_FOLDER_VARIABLE] = folder
        import prometheus_client  # noqa: F401  (forked processes share the memory of its code)

        yield


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
