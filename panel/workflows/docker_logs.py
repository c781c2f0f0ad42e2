"""Fetch the logs of an app: a worker reads them in the guest while the request of an API or page waits."""

from panel.core import clock, jobs
from panel.core.db import on_commit, session
from panel.core.messages import message
from panel.services.docker_deployments import DOCKER_REASONS, guest_error
from panel.workflows import waiting

WORKERS_BUSY_MESSAGE = message("All workers are busy. Try again in a minute.")
LOGS_TIMEOUT_SECONDS = 8
"""Most guest agents answer within one second; the rest is for busy workers."""


def fetch_logs(row):
    """Commit, wait for the current logs and return the app. When they could not be read, `logs_error` has the reason
    and the logs are the earlier ones."""
    requested_at = clock.now()
    reason = guest_error(row.instance, by_operator=True)
    if reason is None:
        row.logs_error = None
        on_commit(lambda: jobs.enqueue_call("worker.tasks.docker_deployments.read_logs", row.id))
        waiting.wait_for(row, lambda: row.logs_error or is_fresh(row, requested_at), LOGS_TIMEOUT_SECONDS)
        reason = None if row.logs_error or is_fresh(row, requested_at) else "nobody"
    if reason:
        row.logs_error = DOCKER_REASONS.get(reason, WORKERS_BUSY_MESSAGE)
        session.commit()
    return row


def is_fresh(row, requested_at):
    return row.logs_at is not None and row.logs_at >= requested_at
