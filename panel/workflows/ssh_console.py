"""Opening a shell takes a moment in which the guest gets a key: both APIs and the pages wait for that here."""

from panel.core import jobs
from panel.core.db import session
from panel.core.errors import Unavailable
from panel.services import consoles, tasks

WORKERS_BUSY_MESSAGE = "No worker had time for it. Try again in a minute."
SSH_SESSION_TIMEOUT_SECONDS = 20
"""Seconds until nothing is expected any more of a guest agent that answers within one, or of busy workers."""


def open_ssh_session(instance, session_owner):
    """A session whose key is in the guest: its row, its secret and the task that did it. Raises `Unavailable` when that
    did not work, with `ssh_key_injection_failed` when the guest did not take it; the session is void then."""
    row, secret, task = consoles.create_shell_session(instance, session_owner)
    jobs.wait_for_task(task, SSH_SESSION_TIMEOUT_SECONDS)
    if task.status == "completed":
        return row, secret, task
    if task.open:
        tasks.cancel(task)
    consoles.close(row, "The guest has no key of it.")
    session.commit()
    session.refresh(row)
    why = f"{row.problem} The machine may still be booting." if row.problem else task.error or WORKERS_BUSY_MESSAGE
    raise Unavailable(f"The shell cannot be opened. {why}", reason="ssh_key_injection_failed" if row.problem else None)
