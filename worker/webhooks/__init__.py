"""Webhooks: the fan-out of events into deliveries, and the dispatcher that sends them."""

from panel.core.db import session
from panel.services.webhooks import fanout
from worker.webhooks import dispatcher


def fan_out():
    """Make deliveries of new events and wake this process's dispatcher."""
    fanout.fan_out()
    session.commit()
    wake_dispatcher()


def wake_dispatcher():
    """Wake the dispatcher, so that it sends due deliveries now."""
    if dispatcher.dispatcher:
        dispatcher.dispatcher.woken.set()
