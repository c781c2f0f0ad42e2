"""Reading an app's logs takes a moment in which a worker asks the guest: both APIs and the pages wait for that here."""

from panel.core import clock, jobs
from panel.core.db import on_commit, session
from panel.services.docker_deployments import WORDS, refusal

BUSY = "No worker had time for it. Try again in a minute."
PATIENCE = 8
"""Seconds until nothing is expected any more of a guest agent that answers within one, or of busy workers."""


def read(row):
    """The app with its logs as they are now, or, with `logs_error`, as they were."""
    asked = clock.now()
    reason = refusal(row.instance, by_operator=True)
    if reason is None:
        row.logs_error = None
        on_commit(lambda: jobs.call("worker.tasks.docker_deployments.read_logs", row.id))
        jobs.awaited(row, lambda: row.logs_error or fresh(row, asked), PATIENCE)
        reason = None if row.logs_error or fresh(row, asked) else "nobody"
    if reason:
        row.logs_error = WORDS.get(reason, BUSY)
        session.commit()
    return row


def fresh(row, asked):
    return row.logs_at is not None and row.logs_at >= asked
