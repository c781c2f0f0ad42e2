"""Deleting expired rows: sessions, one-time tokens, known devices, events and others."""

from datetime import timedelta

from sqlalchemy import delete

from panel.core import clock
from panel.core.db import session
from panel.models import Event, LoginSession, WebhookDelivery
from panel.services import (
    address_log,
    announcements,
    consoles,
    hypervisor_outages,
    idempotency,
    inbox,
    known_devices,
    microvms,
    one_time_tokens,
    tokens,
    usage,
)
from worker.engine.registry import periodic

EVENT_RETENTION = timedelta(days=7)
"""How long events are stored (WHK-88)."""


@periodic(seconds=3600)
def purge_expired() -> None:
    now = clock.now()
    session.execute(delete(LoginSession).where(LoginSession.expires_at < now))
    session.execute(delete(Event).where(Event.created_at < now - EVENT_RETENTION))
    is_test = WebhookDelivery.event_id.is_(None)  # other deliveries are deleted together with their events
    session.execute(delete(WebhookDelivery).where(is_test, WebhookDelivery.created_at < now - EVENT_RETENTION))
    for service in (
        address_log,
        announcements,
        consoles,
        hypervisor_outages,
        inbox,
        known_devices,
        one_time_tokens,
        idempotency,
        tokens,
        usage,
        microvms,
    ):
        service.purge_expired()
    session.commit()
