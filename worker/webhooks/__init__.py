"""Webhooks: the fan-out of events into deliveries, and the dispatcher that sends them."""

from panel.core import context
from panel.core.db import session
from panel.services.webhooks import fanout
from worker.engine.registry import periodic

EVENT_FANOUT_INTERVAL_SECONDS = 60.0
"""Seconds between two searches for events without deliveries (WHK-85)."""


@periodic(seconds=EVENT_FANOUT_INTERVAL_SECONDS)
def fan_out() -> None:
    """Make deliveries of new events and wake this process's dispatcher."""
    fanout.fan_out()
    session.commit()
    wake_dispatcher()


def wake_dispatcher() -> None:
    """Wake the dispatcher, so that it sends due deliveries now."""
    if dispatcher := context.current().dispatcher:
        dispatcher.woken.set()
