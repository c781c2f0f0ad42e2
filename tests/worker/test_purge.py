"""The purge deletes expired rows and no others."""

from datetime import timedelta

from sqlalchemy import select

from panel.core import clock
from panel.core.db import session
from panel.models import Event, LoginSession
from panel.services import sessions


def test_purge_deletes_ended_sessions_and_old_events(cast, run_tasks, monkeypatch):
    from worker.engine import purge

    cast.instance()
    sessions.start(cast.owner, ip="127.0.0.1", user_agent="test")
    session.commit()
    later = clock.now() + timedelta(days=6)
    monkeypatch.setattr(clock, "now", lambda: later)
    purge.purge_expired()
    assert len(session.scalars(select(Event)).all()) == len(session.scalars(select(LoginSession)).all()) == 1
    later += timedelta(days=9)
    purge.purge_expired()
    assert session.scalars(select(Event)).all() == session.scalars(select(LoginSession)).all() == []
