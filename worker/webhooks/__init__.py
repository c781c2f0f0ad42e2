"""Webhooks: deliveries are made of events, and senders in every worker process send them."""

from panel.core.db import session
from panel.services.webhooks import fanout
from worker.webhooks import dispatcher


def spread():
    """Makes deliveries of what happened."""
    fanout.spread()
    session.commit()
    look()


def look():
    """There is something to send."""
    if dispatcher.sender:
        dispatcher.sender.woken.set()
