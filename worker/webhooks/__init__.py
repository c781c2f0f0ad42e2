"""Webhooks: deliveries are made of events, and senders in every worker process send them."""

from panel.db import session
from panel.services.webhooks import spreading
from worker.webhooks import sender


def spread():
    """Makes deliveries of what happened."""
    spreading.spread()
    session.commit()
    look()


def look():
    """There is something to send."""
    if sender.sender:
        sender.sender.woken.set()
