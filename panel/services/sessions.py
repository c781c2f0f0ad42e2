"""Browser sessions."""

import contextlib
import secrets
from datetime import datetime, timedelta
from typing import cast

from redis import RedisError
from sqlalchemy import Select, delete, or_, select, update

from panel.core import clock, context
from panel.core.db import count_changed, session
from panel.core.messages import message
from panel.models import Account, KnownDevice, LoginSession
from panel.services.crud import get_or_404
from panel.services.tokens import hash_secret

SESSION_LIFETIME = timedelta(days=14)
LAST_SEEN_RESOLUTION = timedelta(minutes=5)
"""Precision of `last_seen_at`."""
LAST_SEEN_KEY = "panel:sessions:seen"
MAX_RECORDED_SESSIONS = 10_000


def start(
    account: Account,
    *,
    ip: str,
    user_agent: str,
    device: KnownDevice | None = None,
    impersonator: Account | None = None,
    lifetime: timedelta = SESSION_LIFETIME,
) -> str:
    """Start a session and return the secret for the cookie."""
    value = secrets.token_urlsafe(32)
    row = LoginSession(
        account=account,
        impersonator=impersonator,
        device_id=device and device.id,
        secret_hash=hash_secret(value),
        expires_at=clock.now() + lifetime,
        last_seen_at=clock.now(),
        ip=ip,
        user_agent=user_agent[:400],
    )
    session.add(row)
    session.flush()
    return value


def find(value: str) -> LoginSession | None:
    """Return the running session of this cookie, or None."""
    row = session.scalar(select(LoginSession).where(LoginSession.secret_hash == hash_secret(value)))
    return row if row and row.expires_at > clock.now() else None


def listing(account: Account) -> Select[LoginSession]:
    """Select the person's running sessions, newest first, without impersonations by operators."""
    query = select(LoginSession).where(LoginSession.account_id == account.id, LoginSession.expires_at > clock.now())
    return query.where(LoginSession.impersonator_id.is_(None)).order_by(LoginSession.id.desc())


def list_all(user_id: str | None = None, search: str | None = None) -> Select[LoginSession]:
    """Select the running sessions of all people, newest first, including impersonations."""
    query = select(LoginSession).where(LoginSession.expires_at > clock.now()).order_by(LoginSession.id.desc())
    if user_id:
        query = query.where(LoginSession.account_id == user_id)
    if search:
        people = select(Account.id).where(Account.email.icontains(search, autoescape=True))
        query = query.where(LoginSession.account_id.in_(people))
    return query


def revoke_session(session_id: str) -> None:
    """End the session, whoever it belongs to."""
    session.delete(get_or_404(LoginSession, session_id, message("No such session.")))
    session.flush()


def revoke_one(account: Account, session_id: str) -> bool:
    """End the session if it is the person's own. Return whether it was."""
    statement = delete(LoginSession).where(LoginSession.id == session_id, LoginSession.account_id == account.id)
    return count_changed(statement.where(LoginSession.impersonator_id.is_(None))) == 1


def revoke_others(account: Account, keep: LoginSession | None = None) -> None:
    """End the person's sessions except `keep`, and those in which the person impersonates somebody."""
    own = or_(LoginSession.account_id == account.id, LoginSession.impersonator_id == account.id)
    statement = delete(LoginSession).where(own)
    session.execute(statement.where(LoginSession.id != keep.id) if keep else statement)


def revoke(value: str) -> None:
    session.execute(delete(LoginSession).where(LoginSession.secret_hash == hash_secret(value)))


def record_use(row: LoginSession) -> None:
    """Record that the session is in use.

    Requests must not write to the database for this: the time is stored in Redis until a worker writes it to the row.
    """
    now = clock.now()
    recorded_uses = context.current().recorded_session_uses
    last = max(row.last_seen_at or row.created_at, recorded_uses.get(row.id, row.created_at))
    if now - last < LAST_SEEN_RESOLUTION:
        return
    if len(recorded_uses) >= MAX_RECORDED_SESSIONS:
        recorded_uses.clear()
    recorded_uses[row.id] = now
    with contextlib.suppress(RedisError, OSError):  # without Redis this use is not noted
        context.current().redis.hset(LAST_SEEN_KEY, row.id, now.isoformat())


def write_last_seen() -> None:
    """Write the times that are recorded in Redis to the rows."""
    pending = cast(dict[bytes, bytes], context.current().redis.hgetall(LAST_SEEN_KEY))
    for row_id, seen_at in pending.items():
        statement = update(LoginSession).where(LoginSession.id == row_id.decode())
        session.execute(statement.values(last_seen_at=datetime.fromisoformat(seen_at.decode())))
    if pending:
        context.current().redis.hdel(LAST_SEEN_KEY, *pending)
