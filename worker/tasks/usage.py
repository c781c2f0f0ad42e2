"""Counting what resources cost and charging for it. A worker that dies loses nothing: the next run goes on."""

from panel.core.db import session
from panel.services import usage


def count():
    """Records every hour that is over, then writes the charges into the ledgers, some at a time."""
    for step in (usage.count, usage.book):
        while step():
            session.commit()
        session.commit()
