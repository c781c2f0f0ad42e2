"""Cache of tokens that this process looked up in the last seconds, so that frequent requests need no database query.

Entries are valid only while nothing has changed that access depends on. Each such change stores a new version in Redis
after its commit and before its response. Each request reads that version in the round trip that counts it for the rate
limit. So a revocation invalidates the caches of all processes at once. Without Redis nothing is cached.
"""

import secrets
import time
from typing import NamedTuple

import structlog
from redis import RedisError
from sqlalchemy import Row, event
from sqlalchemy.orm import ORMExecuteState, Session, UOWTransaction

from panel.core import context
from panel.models import Account, Member, MicrovmApiKey, Role, Token
from panel.ratelimit import windows

log = structlog.get_logger()

VERSION_KEY = "panel:access:changed"
CACHE_TTL_SECONDS = 5
"""Also how long a change stays unnoticed if it was made without the panel, or while Redis was unreachable."""
MAX_CACHED_TOKENS = 10_000
INVALIDATING_MODELS = (Token, Account, Member, Role, MicrovmApiKey)
"""The models that access depends on."""


class CachedToken(NamedTuple):
    token: Row
    word: bytes
    until: float


def find(digest: str) -> CachedToken | None:
    """Return the cached entry of this hash, or None. It may be used only if its `word` is the version in Redis."""
    entry = context.current().cached_tokens.get(digest)
    return entry if entry and entry.until > time.monotonic() else None


def put(digest: str, token: Row | None, version: bytes | None) -> None:
    """Cache a token that was looked up after `version` was read."""
    if token is None or version is None:
        return
    cached_tokens = context.current().cached_tokens
    if len(cached_tokens) >= MAX_CACHED_TOKENS:
        cached_tokens.clear()
    cached_tokens[digest] = CachedToken(token, version, time.monotonic() + CACHE_TTL_SECONDS)


def get_cache_version() -> bytes | None:
    """Return the version in Redis, setting it if needed; None while Redis is unreachable."""
    return windows.get(VERSION_KEY) or windows.get(VERSION_KEY, default=secrets.token_hex(8))


def invalidate() -> None:
    """Invalidate the entries of all processes."""
    context.current().cached_tokens.clear()
    try:
        context.current().redis.set(VERSION_KEY, secrets.token_hex(8))
    except (RedisError, OSError) as error:
        log.warning("access_change_not_published", error=str(error), effective_in_seconds=CACHE_TTL_SECONDS)


def schedule_invalidation(current: Session) -> None:
    calls = current.info.setdefault("on_commit", [])
    if invalidate not in calls:
        calls.append(invalidate)


@event.listens_for(Session, "after_flush")
def on_flush(current: Session, _: UOWTransaction) -> None:
    if any(isinstance(row, INVALIDATING_MODELS) for rows in (current.dirty, current.deleted) for row in rows):
        schedule_invalidation(current)


@event.listens_for(Session, "do_orm_execute")
def on_execute(execute_state: ORMExecuteState) -> None:
    if (
        (execute_state.is_update or execute_state.is_delete)
        and execute_state.bind_mapper
        and execute_state.bind_mapper.class_ in INVALIDATING_MODELS
    ):
        schedule_invalidation(execute_state.session)
