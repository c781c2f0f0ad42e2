"""What has had its day: sessions and links that ended, browsers and events that nobody needs any more."""

from datetime import timedelta

from sqlalchemy import delete

from panel.core import clock
from panel.core.db import session
from panel.models import Event, SignIn, WebhookDelivery
from panel.services import consoles, idempotency, known_devices, one_time_tokens, tokens, usage

EVENTS_KEPT = timedelta(days=7)
"""How long the history of what happened reaches back (specification, section 8)."""


def tidy():
    now = clock.now()
    session.execute(delete(SignIn).where(SignIn.expires_at < now))
    session.execute(delete(Event).where(Event.created_at < now - EVENTS_KEPT))
    tests = WebhookDelivery.event_id.is_(None)  # the others go with their events
    session.execute(delete(WebhookDelivery).where(tests, WebhookDelivery.created_at < now - EVENTS_KEPT))
    for service in (consoles, known_devices, one_time_tokens, idempotency, tokens, usage):
        service.tidy()
    session.commit()
