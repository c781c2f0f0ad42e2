"""Opening a screen: both APIs and the pages. Only where a cluster may issue no ticket for it somebody has to wait."""

from panel.core import jobs
from panel.core.db import session
from panel.core.errors import Unavailable
from panel.services import consoles

BUSY = "No worker had time for it. Try again in a minute."
PATIENCE = 10
"""Seconds until nothing is expected any more of the node's cluster, or of busy workers."""


def opened(instance, who, **options):
    """A session of the screen: its row and its secret. Raises `Unavailable` with `cluster_console_unavailable` when the
    instance is on a node whose cluster issued no ticket; there is no session then."""
    row, secret = consoles.screen(instance, who, **options)
    if instance.hypervisor.screen_tickets:
        need_ticket(row)
    return row, secret


def need_ticket(row):
    jobs.awaited(row, lambda: row.port or row.problem, PATIENCE)
    if row.port is None:
        why = row.problem or BUSY
        session.delete(row)
        session.commit()
        raise Unavailable(f"The screen cannot be opened. {why}", reason="cluster_console_unavailable")
