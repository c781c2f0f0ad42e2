"""Writing the tokens' last use to their rows."""

from panel.core.db import session
from panel.services import tokens
from worker.engine.registry import periodic


@periodic(seconds=15)
def flush_last_used():
    tokens.write_last_use()
    session.commit()
