"""Writing the tokens' last use to their rows."""

from panel.core.db import session
from panel.services import tokens


def flush_last_used():
    tokens.write_last_use()
    session.commit()
