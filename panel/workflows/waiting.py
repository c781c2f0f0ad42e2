"""Commit and wait in a request, for the result of a worker."""

import time

from panel.core.db import session

WAIT_POLL_INTERVAL_SECONDS = 0.05
"""Pause between two queries while a request waits for a task."""


def wait_for_task(task, seconds):
    """Commit and wait up to `seconds` for the end of a task. Return it, refreshed; it may still be open."""
    return wait_for(task, lambda: not task.open, seconds)


def wait_for(row, is_done, seconds):
    """Commit, so that the work can begin, and wait up to `seconds` until `is_done()`, refreshing the row before each
    call. Return the row; it may not be done. Use only for short work whose result the request needs."""

    def refreshed():
        session.refresh(row)
        session.commit()
        return is_done()

    session.commit()
    wait_until(refreshed, seconds)
    return row


def wait_until(is_done, seconds):
    """Wait up to `seconds` until `is_done()`, which must only read. Return its last result."""
    deadline = time.monotonic() + seconds
    while True:
        result = is_done()
        session.commit()
        if result or time.monotonic() > deadline:
            return result
        time.sleep(WAIT_POLL_INTERVAL_SECONDS)
