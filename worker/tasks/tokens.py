"""Keeping tokens' rows up to date."""

from panel.core.db import session
from panel.services import tokens


def flush_last_used():
    tokens.write_last_use()
    session.commit()
