"""Webhooks: deliveries are made of events, and senders in every worker process send them."""

from panel.core.db import session
from panel.services.webhooks import fanout
from worker.webhooks import dispatcher


def fan_out():
    """Makes deliveries of what happened."""
    fanout.fan_out()
    session.commit()
    wake_dispatcher()


def wake_dispatcher():
    """There is something to send."""
    if dispatcher.dispatcher:
        dispatcher.dispatcher.woken.set()
