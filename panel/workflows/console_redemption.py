"""Redeem a console session while its connection is passed to the console server."""

from contextlib import contextmanager

from panel.core.db import allow_writes, session
from panel.core.errors import Problem
from panel.services import consoles


@contextmanager
def redeemed_session(kind, secret, address, may_open):
    """Redeem a session, commit, and yield its description for the console server. Release the session when the block
    raises Problem, so that it can be used again."""
    with allow_writes():
        session_id = consoles.redeem(kind, secret, address, may_open)
        note = consoles.describe_session(consoles.get(session_id))
        session.commit()
        try:
            yield note
        except Problem:
            consoles.release(session_id)
            session.commit()
            raise
