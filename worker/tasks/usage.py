"""Counting what resources cost and charging for it. A worker that dies loses nothing: the next run goes on."""

from panel.core.db import session
from panel.services import usage


def meter_and_post():
    """Records every hour that is over, then writes the charges into the ledgers, some at a time."""
    for step in (usage.meter_hours, usage.post_charges):
        while step():
            session.commit()
        session.commit()
