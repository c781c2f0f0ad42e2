"""Open a VNC screen, for both APIs and the pages. The request waits only on nodes whose cluster must issue a ticket."""

from panel.core.db import session
from panel.core.errors import Unavailable
from panel.core.messages import message
from panel.services import consoles
from panel.workflows import waiting

WORKERS_BUSY_MESSAGE = message("All workers are busy. Try again in a minute.")
VNC_TICKET_TIMEOUT_SECONDS = 10
"""How long a request waits for the ticket of the node's cluster, including time for busy workers."""


def open_vnc_session(instance, session_owner, **options):
    """Create a console session of the screen. Return (row, secret). Raise Unavailable `cluster_console_unavailable` and
    delete the session when the node's cluster issues no ticket."""
    row, secret = consoles.create_vnc_session(instance, session_owner, **options)
    if instance.hypervisor.screen_tickets:
        ensure_ticket(row)
    return row, secret


def ensure_ticket(row):
    waiting.wait_for(row, lambda: row.port or row.error, VNC_TICKET_TIMEOUT_SECONDS)
    if row.port is None:
        reason = row.error or WORKERS_BUSY_MESSAGE
        session.delete(row)
        session.commit()
        raise Unavailable(
            message("The console cannot be opened. {reason}", reason=reason), reason="cluster_console_unavailable"
        )
