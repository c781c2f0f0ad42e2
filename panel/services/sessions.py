"""Signed-in browsers."""

import contextlib
import secrets
from datetime import datetime, timedelta

from redis import RedisError
from sqlalchemy import delete, or_, select, update

from panel.core import clock, jobs
from panel.core.db import session
from panel.models import Account, SignIn
from panel.services.crud import fetch
from panel.services.tokens import hashed

LIFETIME = timedelta(days=14)
STAMP_EVERY = timedelta(minutes=5)
"""How exact `last_seen_at` is."""
WAITING = "panel:sessions:seen"
noted = {}
"""When this process last noted that a session was used."""
MOST_NOTED = 10_000


def start(account, *, ip, user_agent, device=None, impersonator=None, lasting=LIFETIME):
    """Begins a session and returns the secret for the cookie."""
    value = secrets.token_urlsafe(32)
    row = SignIn(
        account=account,
        impersonator=impersonator,
        device_id=device and device.id,
        secret_hash=hashed(value),
        expires_at=clock.now() + lasting,
        last_seen_at=clock.now(),
        ip=ip,
        user_agent=user_agent[:400],
    )
    session.add(row)
    session.flush()
    return value


def find(value):
    """The running session of this cookie, or None."""
    found = session.scalar(select(SignIn).where(SignIn.secret_hash == hashed(value)))
    return found if found and found.expires_at > clock.now() else None


def listing(account):
    """Running sessions of the person, newest first. An operator's look at the panel as this person is none of them."""
    running = select(SignIn).where(SignIn.account_id == account.id, SignIn.expires_at > clock.now())
    return running.where(SignIn.impersonator_id.is_(None)).order_by(SignIn.id.desc())


def everybodys(user_id=None, search=None):
    """Running sessions of all people, newest first, impersonations among them."""
    query = select(SignIn).where(SignIn.expires_at > clock.now()).order_by(SignIn.id.desc())
    if user_id:
        query = query.where(SignIn.account_id == user_id)
    if search:
        people = select(Account.id).where(Account.email.icontains(search, autoescape=True))
        query = query.where(SignIn.account_id.in_(people))
    return query


def end_any(sign_in_id):
    """Signs a browser out, whoever uses it."""
    session.delete(fetch(SignIn, sign_in_id, "No such session."))
    session.flush()


def end_one(account, sign_in_id):
    """Signs a browser out. Returns whether it was one of the person's."""
    mine = delete(SignIn).where(SignIn.id == sign_in_id, SignIn.account_id == account.id)
    return session.execute(mine.where(SignIn.impersonator_id.is_(None))).rowcount == 1


def end_others(account, kept=None):
    """Signs every browser out, but for the session `kept`, and those in which an operator is somebody else."""
    theirs = or_(SignIn.account_id == account.id, SignIn.impersonator_id == account.id)
    session.execute(delete(SignIn).where(theirs, SignIn.id != (kept.id if kept else "")))


def end(value):
    session.execute(delete(SignIn).where(SignIn.secret_hash == hashed(value)))


def seen(row):
    """Notes that the session is in use. A request that only reads writes nothing to the database: the time waits in
    Redis until a worker writes it down."""
    now = clock.now()
    last = max(row.last_seen_at or row.created_at, noted.get(row.id, row.created_at))
    if now - last < STAMP_EVERY:
        return
    if len(noted) >= MOST_NOTED:
        noted.clear()
    noted[row.id] = now
    with contextlib.suppress(RedisError, OSError):  # without Redis this use is not noted
        jobs.connection.hset(WAITING, row.id, now.isoformat())


def write_down_seen():
    """Moves the times that wait in Redis into the rows."""
    waiting = jobs.connection.hgetall(WAITING)
    for row_id, when in waiting.items():
        stamp = update(SignIn).where(SignIn.id == row_id.decode())
        session.execute(stamp.values(last_seen_at=datetime.fromisoformat(when.decode())))
    if waiting:
        jobs.connection.hdel(WAITING, *waiting)
