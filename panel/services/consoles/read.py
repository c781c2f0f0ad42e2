"""Finding sessions, and closing those that are open."""

from datetime import timedelta

from sqlalchemy import and_, or_, select, text, update
from sqlalchemy.orm import joinedload

from panel.core import clock
from panel.core.db import session
from panel.core.errors import NotFound
from panel.models import ConsoleSession, Instance
from panel.models.consoles import OPEN_SESSION_SQL
from panel.services.tokens import hash_secret

CONSOLE_LOST_AFTER = timedelta(seconds=45)
"""A console that its process has not named for so long is gone, and the process with it."""


def is_connected():
    """Whether a console process has the connection, in words that the partial index knows."""
    return and_(text(OPEN_SESSION_SQL), ConsoleSession.seen_at > clock.now() - CONSOLE_LOST_AFTER)


def find(kind, secret):
    """The session with this secret, whatever became of it; or None."""
    return session.scalar(
        select(ConsoleSession)
        .where(ConsoleSession.secret_hash == hash_secret(secret), ConsoleSession.kind == kind)
        .options(joinedload(ConsoleSession.instance))
        .execution_options(populate_existing=True)
    )


def get(session_id):
    row = session.get(ConsoleSession, session_id)
    if row is None:
        raise NotFound("No such console.")
    return row


def select_open(instance=None, kind=None):
    """Those that are open now, newest first; of one instance if it is given."""
    found = select(ConsoleSession).where(is_connected()).order_by(ConsoleSession.id.desc())
    if kind:
        found = found.where(ConsoleSession.kind == kind)
    return found.where(ConsoleSession.instance_id == instance.id) if instance else found


def listing(search=None):
    """Every open console of the platform, with what operators see of it."""
    shown = joinedload(ConsoleSession.instance)
    found = select_open().join(ConsoleSession.instance).options(shown.joinedload(Instance.hypervisor))
    if search:
        names = (Instance.display_name, Instance.name)
        found = found.where(or_(ConsoleSession.ip == search, *(n.icontains(search, autoescape=True) for n in names)))
    return found


def find_current(instance, kind):
    """The open one or, if there is none, the one that can still be used; or None."""
    rows = select(ConsoleSession).where(ConsoleSession.instance_id == instance.id, ConsoleSession.kind == kind)
    usable = and_(ConsoleSession.spent_at.is_(None), ConsoleSession.expires_at > clock.now())
    newest = rows.where(or_(is_connected(), usable)).order_by(
        ConsoleSession.spent_at.is_(None), ConsoleSession.id.desc()
    )
    return session.scalar(newest.limit(1))


def close(row, reason):
    """Closes it: one that is open within seconds, and one that is not can no longer be used."""
    row.close_because = reason
    if row.spent_at is None:
        row.expires_at = min(row.expires_at, clock.now())
    session.flush()


def close_all(instance, kind, reason):
    """Closes all of an instance; returns how many were open or could have been used."""
    alive = or_(
        text(OPEN_SESSION_SQL), and_(ConsoleSession.spent_at.is_(None), ConsoleSession.expires_at > clock.now())
    )
    mine = update(ConsoleSession).where(ConsoleSession.instance_id == instance.id, ConsoleSession.kind == kind, alive)
    closed = session.execute(
        mine.values(close_because=reason, expires_at=clock.now()), execution_options={"synchronize_session": False}
    )
    return closed.rowcount
