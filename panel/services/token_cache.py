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

VERSION_KEY = "panel:access:changed"
CACHE_TTL_SECONDS = 5
"""Seconds; also how long a change may go unseen that was made past the panel, or while Redis was away."""
MAX_CACHED_TOKENS = 10_000
INVALIDATING_MODELS = (Token, Account, Member, Role)
"""What access depends on."""
cached_tokens = {}


class CachedToken(NamedTuple):
    token: object
    word: bytes
    until: float


def find(digest):
    """What was found under this hash lately, if anything: to be used only if its word is still the one in Redis."""
    known = cached_tokens.get(digest)
    return known if known and known.until > time.monotonic() else None


def put(digest, token, version):
    """Remembers what was looked up after `cache_version` was read."""
    if token is None or version is None:
        return
    if len(cached_tokens) >= MAX_CACHED_TOKENS:
        cached_tokens.clear()
    cached_tokens[digest] = CachedToken(token, version, time.monotonic() + CACHE_TTL_SECONDS)


def cache_version():
    """The word in Redis, or None while it is away."""
    return windows.get(VERSION_KEY) or windows.get(VERSION_KEY, default=secrets.token_hex(8))


def invalidate():
    """From now on nothing counts that was looked up before."""
    cached_tokens.clear()
    try:
        jobs.connection.set(VERSION_KEY, secrets.token_hex(8))
    except (RedisError, OSError) as error:
        log.warning("access_change_not_told", error=str(error), seen_in=CACHE_TTL_SECONDS)


def schedule_invalidation(current):
    calls = current.info.setdefault("on_commit", [])
    if invalidate not in calls:
        calls.append(invalidate)


@event.listens_for(Session, "after_flush")
def on_flush(current, _):
    if any(isinstance(row, INVALIDATING_MODELS) for rows in (current.dirty, current.deleted) for row in rows):
        schedule_invalidation(current)


@event.listens_for(Session, "do_orm_execute")
def on_execute(execute_state):
    if (
        (execute_state.is_update or execute_state.is_delete)
        and execute_state.bind_mapper
        and execute_state.bind_mapper.class_ in INVALIDATING_MODELS
    ):
        schedule_invalidation(execute_state.session)
