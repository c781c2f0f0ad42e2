"""What has had its day: sessions that ended, events that nobody needs any more."""

from datetime import timedelta

from sqlalchemy import delete

from panel import clock
from panel.db import session
from panel.models import Event, SignIn

EVENTS_KEPT = timedelta(days=7)
"""How long the history of what happened reaches back (specification, section 8)."""


def tidy():
    now = clock.now()
    session.execute(delete(SignIn).where(SignIn.expires_at < now))
    session.execute(delete(Event).where(Event.created_at < now - EVENTS_KEPT))
    session.commit()
