"""What has had its day goes, and nothing else."""

from datetime import timedelta

from sqlalchemy import select

from panel import clock
from panel.db import session
from panel.models import Event, SignIn
from panel.services import sign_ins


def test_ended_sessions_and_old_events_go(cast, work, monkeypatch):
    from worker import tidy

    cast.instance()
    sign_ins.start(cast.owner, ip="127.0.0.1", user_agent="test")
    session.commit()
    later = clock.now() + timedelta(days=6)
    monkeypatch.setattr(clock, "now", lambda: later)
    tidy.tidy()
    assert len(session.scalars(select(Event)).all()) == len(session.scalars(select(SignIn)).all()) == 1
    later += timedelta(days=9)
    tidy.tidy()
    assert session.scalars(select(Event)).all() == session.scalars(select(SignIn)).all() == []
