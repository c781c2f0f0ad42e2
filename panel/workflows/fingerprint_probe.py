"""Read the fingerprint of a backup server: a worker connects to it while the request waits."""

from panel.core.errors import Invalid, Unavailable
from panel.core.messages import message
from panel.services import backup_fingerprints
from panel.workflows import waiting

PROBE_TIMEOUT_SECONDS = 10


def run(host, port, *, actor):
    """Return the SHA-256 fingerprint of the certificate that the server presents. Raise Invalid without one."""
    task = waiting.wait_for_task(backup_fingerprints.enqueue(host, port, actor=actor), PROBE_TIMEOUT_SECONDS)
    if task.open:
        raise Unavailable(message("All workers are busy. Try again in a minute."))
    if task.status != "completed":
        raise Invalid(task.error, host=task.error)
    return task.arguments["fingerprint"]
