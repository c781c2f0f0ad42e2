"""Writing the sessions' last use to their rows."""

from panel.core.db import session
from panel.services import sessions
from worker.engine.registry import periodic


@periodic(seconds=60)
def flush_last_seen():
    sessions.write_last_seen()
    session.commit()
