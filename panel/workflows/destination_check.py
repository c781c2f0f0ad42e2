"""Test a backup destination: a worker checks it while the request waits."""

from panel.core import clock, jobs
from panel.core.db import session
from panel.core.errors import Unavailable
from panel.core.messages import message
from panel.workflows import waiting

CHECK_TIMEOUT_SECONDS = 10


def run(destination):
    """Commit, have a worker check the destination, and return it. Raise Unavailable when no worker did."""
    requested_at, destination_id = clock.now(), destination.id
    session.commit()
    jobs.enqueue_call("worker.tasks.backup_destinations.check_on_request", destination_id)

    def is_checked():
        return destination.checked_at is not None and destination.checked_at >= requested_at

    waiting.wait_for(destination, is_checked, CHECK_TIMEOUT_SECONDS)
    if not is_checked():
        raise Unavailable(message("All workers are busy. Try again in a minute."))
    return destination
