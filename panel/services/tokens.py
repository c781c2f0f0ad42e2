"""Bearer tokens. Only the hash of a value is stored: 256 random bits need no slow hash."""

import contextlib
import secrets
from datetime import datetime, timedelta
from hashlib import sha256

from redis import RedisError
from sqlalchemy import bindparam, select, update

from panel import clock, jobs
from panel.db import session
from panel.models import Token

PREFIX = {"user": "pu_", "impersonation": "pi_", "admin": "pa_", "billing": "pb_"}
STAMP_EVERY = timedelta(minutes=1)
"""How exact `last_used_at` is."""
WAITING = "panel:tokens:used"
noted = {}
"""When this process last noted the use of a token."""


def hashed(value):
    return sha256(value.encode()).hexdigest()


def issue(kind, *, name, description="", account=None, scopes=(), allowed_ips=(), expires_at=None):
    """A new token and its value, which cannot be had again."""
    value = PREFIX[kind] + secrets.token_urlsafe(32)
    token = Token(
        kind=kind,
        account_id=account and account.id,
        name=name,
        description=description,
        secret_hash=hashed(value),
        scopes=list(scopes),
        allowed_ips=list(allowed_ips),
        expires_at=expires_at,
    )
    session.add(token)
    session.flush()
    return token, value


def find(value):
    """The usable token with this value, or None."""
    token = session.scalar(BY_HASH, {"hash": hashed(value)})
    return token if token and token.usable else None


BY_HASH = select(Token).where(Token.secret_hash == bindparam("hash"))


def used(token):
    """Notes that the token was used. A request writes nothing to the database: the time waits in Redis, at most once a
    minute for each process, until a worker writes it down."""
    now = clock.now()
    if now - noted.get(token.id, now - STAMP_EVERY) < STAMP_EVERY:
        return
    noted[token.id] = now
    with contextlib.suppress(RedisError, OSError):  # without Redis this minute's use is not noted
        jobs.connection.hset(WAITING, token.id, now.isoformat())


def write_down_use():
    """Moves the times that wait in Redis into the rows."""
    waiting = jobs.connection.hgetall(WAITING)
    for token_id, when in waiting.items():
        stamp = update(Token).where(Token.id == token_id.decode())
        session.execute(stamp.values(last_used_at=datetime.fromisoformat(when.decode())))
    if waiting:
        jobs.connection.hdel(WAITING, *waiting)
