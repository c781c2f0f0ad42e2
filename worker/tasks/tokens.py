"""Keeping tokens' rows up to date."""

from panel.core.db import session
from panel.services import tokens


def write_down_use():
    tokens.write_down_use()
    session.commit()
