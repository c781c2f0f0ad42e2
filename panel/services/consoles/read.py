"""Finding console sessions, and closing open ones."""

from datetime import timedelta

from sqlalchemy import ColumnElement, Select, and_, or_, select, text, update
from sqlalchemy.orm import joinedload

from panel.core import clock
from panel.core.db import count_changed, session
from panel.core.errors import NotFound
from panel.core.messages import message
from panel.models import ConsoleSession, Instance
from panel.models.consoles import OPEN_SESSION_SQL
from panel.services.tokens import hash_secret

CONSOLE_LOST_AFTER = timedelta(seconds=45)
"""A console that its server has not reported for this time is lost, and the server with it."""


def is_connected() -> ColumnElement[bool]:
    """Return the condition that a console server has the connection, written so that the partial index is used."""
    return and_(text(OPEN_SESSION_SQL), ConsoleSession.seen_at > clock.now() - CONSOLE_LOST_AFTER)


def find(kind: str, secret: str) -> ConsoleSession | None:
    """Return the session with this secret, in any state, or None."""
    return session.scalar(
        select(ConsoleSession)
        .where(ConsoleSession.secret_hash == hash_secret(secret), ConsoleSession.kind == kind)
        .options(joinedload(ConsoleSession.instance))
        .execution_options(populate_existing=True)
    )


def get(session_id: str) -> ConsoleSession:
    row = session.get(ConsoleSession, session_id)
    if row is None:
        raise NotFound(message("No such console."))
    return row


def select_open(instance: Instance | None = None, kind: str | None = None) -> Select[ConsoleSession]:
    """Select the sessions that are open now, newest first; with an instance only its own."""
    query = select(ConsoleSession).where(is_connected()).order_by(ConsoleSession.id.desc())
    if kind:
        query = query.where(ConsoleSession.kind == kind)
    return query.where(ConsoleSession.instance_id == instance.id) if instance else query


def listing(search: str | None = None) -> Select[ConsoleSession]:
    """Select every open console of the platform, with what operators see of it."""
    load_instance = joinedload(ConsoleSession.instance)
    query = select_open().join(ConsoleSession.instance).options(load_instance.joinedload(Instance.hypervisor))
    if search:
        names = (Instance.display_name, Instance.name)
        query = query.where(or_(ConsoleSession.ip == search, *(n.icontains(search, autoescape=True) for n in names)))
    return query


def find_current(instance: Instance, kind: str) -> ConsoleSession | None:
    """Return the open session or, if there is none, one that can still be redeemed; or None."""
    query = select(ConsoleSession).where(ConsoleSession.instance_id == instance.id, ConsoleSession.kind == kind)
    usable = and_(ConsoleSession.redeemed_at.is_(None), ConsoleSession.expires_at > clock.now())
    newest = query.where(or_(is_connected(), usable)).order_by(
        ConsoleSession.redeemed_at.is_(None), ConsoleSession.id.desc()
    )
    return session.scalar(newest.limit(1))


def close(row: ConsoleSession, reason: str) -> None:
    """Close the session: an open one ends within seconds, another one can no longer be redeemed."""
    row.close_reason = reason
    if row.redeemed_at is None:
        row.expires_at = min(row.expires_at, clock.now())
    session.flush()


def close_all(instance: Instance, kind: str, reason: str) -> int:
    """Close all sessions of an instance. Return how many were open or could have been redeemed."""
    not_over = or_(
        text(OPEN_SESSION_SQL), and_(ConsoleSession.redeemed_at.is_(None), ConsoleSession.expires_at > clock.now())
    )
    query = update(ConsoleSession).where(
        ConsoleSession.instance_id == instance.id, ConsoleSession.kind == kind, not_over
    )
    return count_changed(query.values(close_reason=reason, expires_at=clock.now()), synchronize_session=False)
