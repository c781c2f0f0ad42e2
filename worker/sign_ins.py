"""Keeping sessions' rows up to date."""

from panel.db import session
from panel.services import sign_ins


def write_down_seen():
    sign_ins.write_down_seen()
    session.commit()
