"""Tokens that this process has looked up in the last seconds, so that a busy program costs the database nothing.

What is remembered counts only while nothing has changed that access depends on. Each such change puts a new word into
Redis once it is committed and before its answer goes out, and each request reads that word in the trip in which it is
counted. So a revocation empties the memory of every process at once. Without Redis nothing is remembered.
"""

import secrets
import time
from typing import NamedTuple

import structlog
from redis import RedisError
from sqlalchemy import event
from sqlalchemy.orm import Session

from panel.core import jobs
from panel.models import Account, Member, Role, Token
from panel.ratelimit import windows

log = structlog.get_logger()

WORD = "panel:access:changed"
KEPT = 5
"""Seconds; also how long a change may go unseen that was made past the panel, or while Redis was away."""
MOST = 10_000
COUNTS = (Token, Account, Member, Role)
"""What access depends on."""
memory = {}


class Known(NamedTuple):
    token: object
    word: bytes
    until: float


def token(digest):
    """What was found under this hash lately, if anything: to be used only if its word is still the one in Redis."""
    known = memory.get(digest)
    return known if known and known.until > time.monotonic() else None


def keep(digest, token, word):
    """Remembers what was looked up after `word` was read."""
    if token is None or word is None:
        return
    if len(memory) >= MOST:
        memory.clear()
    memory[digest] = Known(token, word, time.monotonic() + KEPT)


def word():
    """The word in Redis, or None while it is away."""
    return windows.read(WORD) or windows.read(WORD, otherwise=secrets.token_hex(8))


def changed():
    """From now on nothing counts that was looked up before."""
    memory.clear()
    try:
        jobs.connection.set(WORD, secrets.token_hex(8))
    except (RedisError, OSError) as error:
        log.warning("access_change_not_told", error=str(error), seen_in=KEPT)


def note(current):
    calls = current.info.setdefault("on_commit", [])
    if changed not in calls:
        calls.append(changed)


@event.listens_for(Session, "after_flush")
def flushed(current, _):
    if any(isinstance(row, COUNTS) for rows in (current.dirty, current.deleted) for row in rows):
        note(current)


@event.listens_for(Session, "do_orm_execute")
def executed(asked):
    if (asked.is_update or asked.is_delete) and asked.bind_mapper and asked.bind_mapper.class_ in COUNTS:
        note(asked.session)
