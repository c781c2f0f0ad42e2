"""Open a shell: a worker puts a key into the guest while the request waits. Used by both APIs and the pages."""

from panel.core.db import session
from panel.core.errors import Unavailable
from panel.core.messages import message
from panel.services import consoles, tasks
from panel.workflows import waiting

WORKERS_BUSY_MESSAGE = message("All workers are busy. Try again in a minute.")
SSH_SESSION_TIMEOUT_SECONDS = 20
"""Most guest agents answer within one second; the rest is for busy workers."""


def open_ssh_session(instance, session_owner):
    """Create a console session whose key is in the guest. Return (row, secret, task). Raise Unavailable when this
    failed, with `ssh_key_injection_failed` when the guest refused the key; the session is closed then."""
    row, secret, task = consoles.create_shell_session(instance, session_owner)
    waiting.wait_for_task(task, SSH_SESSION_TIMEOUT_SECONDS)
    if task.status == "completed":
        return row, secret, task
    if task.open:
        tasks.cancel(task)
    consoles.close(row, message("The key was not installed in the guest."))
    session.commit()
    session.refresh(row)
    reason = (
        message("{problem} The instance may still be booting.", problem=row.error)
        if row.error
        else task.error or WORKERS_BUSY_MESSAGE
    )
    raise Unavailable(
        message("The shell cannot be opened. {reason}", reason=reason),
        reason="ssh_key_injection_failed" if row.error else None,
    )
