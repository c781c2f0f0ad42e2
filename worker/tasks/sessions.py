"""Keeping sessions' rows up to date."""

from panel.core.db import session
from panel.services import sessions


def write_down_seen():
    sessions.write_down_seen()
    session.commit()
