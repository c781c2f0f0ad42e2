"""Reading an app's logs takes a moment in which a worker asks the guest: both APIs and the pages wait for that here."""

from panel.core import clock, jobs
from panel.core.db import on_commit, session
from panel.services.docker_deployments import DOCKER_REASONS, guest_error

WORKERS_BUSY_MESSAGE = "No worker had time for it. Try again in a minute."
LOGS_TIMEOUT_SECONDS = 8
"""Seconds until nothing is expected any more of a guest agent that answers within one, or of busy workers."""


def fetch_logs(row):
    """The app with its logs as they are now, or, with `logs_error`, as they were."""
    asked = clock.now()
    reason = guest_error(row.instance, by_operator=True)
    if reason is None:
        row.logs_error = None
        on_commit(lambda: jobs.enqueue_call("worker.tasks.docker_deployments.read_logs", row.id))
        jobs.wait_for(row, lambda: row.logs_error or is_fresh(row, asked), LOGS_TIMEOUT_SECONDS)
        reason = None if row.logs_error or is_fresh(row, asked) else "nobody"
    if reason:
        row.logs_error = DOCKER_REASONS.get(reason, WORKERS_BUSY_MESSAGE)
        session.commit()
    return row


def is_fresh(row, requested_at):
    return row.logs_at is not None and row.logs_at >= requested_at
