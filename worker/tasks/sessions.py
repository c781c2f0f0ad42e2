"""Keeping sessions' rows up to date."""

from panel.core.db import session
from panel.services import sessions


def flush_last_seen():
    sessions.write_last_seen()
    session.commit()
