"""Opening a screen: both APIs and the pages. Only where a cluster may issue no ticket for it somebody has to wait."""

from panel.core import jobs
from panel.core.db import session
from panel.core.errors import Unavailable
from panel.services import consoles

WORKERS_BUSY_MESSAGE = "No worker had time for it. Try again in a minute."
VNC_TICKET_TIMEOUT_SECONDS = 10
"""Seconds until nothing is expected any more of the node's cluster, or of busy workers."""


def open_vnc_session(instance, session_owner, **options):
    """A session of the screen: its row and its secret. Raises `Unavailable` with `cluster_console_unavailable` when the
    instance is on a node whose cluster issued no ticket; there is no session then."""
    row, secret = consoles.create_vnc_session(instance, session_owner, **options)
    if instance.hypervisor.screen_tickets:
        ensure_ticket(row)
    return row, secret


def ensure_ticket(row):
    jobs.wait_for(row, lambda: row.port or row.problem, VNC_TICKET_TIMEOUT_SECONDS)
    if row.port is None:
        why = row.problem or WORKERS_BUSY_MESSAGE
        session.delete(row)
        session.commit()
        raise Unavailable(f"The screen cannot be opened. {why}", reason="cluster_console_unavailable")
