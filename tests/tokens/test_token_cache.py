"""The token cache never grants access that has been revoked."""

import math
from datetime import timedelta

import pytest
from sqlalchemy import func, select, text

from panel.core import clock, context, jobs
from panel.core.db import session
from panel.models import Member, Token
from panel.ratelimit import windows
from panel.services import token_cache, tokens
from tests.support.rate_limit_clock import connect_rate_limits
from tests.support.redis_server import RedisServer
from worker.tasks.tokens import flush_last_used

pytestmark = pytest.mark.processes


@pytest.fixture
def redis(tmp_path, rolled_back_app, monkeypatch):
    with RedisServer(tmp_path) as url:
        monkeypatch.setattr(windows, "REDIS_TIMEOUT_SECONDS", 60)  # slow test machines
        monkeypatch.setattr(token_cache, "CACHE_TTL_SECONDS", 600)
        monkeypatch.setattr(context.current(), "redis_paused_until", -math.inf)  # earlier tests may have paused Redis
        context.current().recorded_token_uses.clear()
        monkeypatch.setattr(context.current(), "redis", jobs.create_client(url))
        connect_rate_limits(url)
        context.current().cached_tokens.clear()
        yield url
        connect_rate_limits("")
        context.current().cached_tokens.clear()


@pytest.fixture
def database_lookups(redis, api_as, monkeypatch):
    """The token values that were looked up in the database, after the cache was emptied."""
    api_as("owner", "GET", "/api/connect")
    context.current().cached_tokens.clear()
    lookups = []
    find_by_value = tokens.find_by_value
    monkeypatch.setattr(tokens, "find_by_value", lambda value: lookups.append(value) or find_by_value(value))
    return lookups


def get_token(cast, caller):
    return session.scalar(select(Token).where(Token.secret_hash == tokens.hash_secret(cast.tokens[caller])))


def get_request_status(as_, caller="owner", method="GET", path="/api/instances"):
    return as_(caller, method, path).status_code


def test_repeated_requests_query_token_once(redis, api_as, cast, database_lookups):
    assert [get_request_status(api_as) for _ in range(5)] == [200] * 5
    assert len(database_lookups) == 1


def test_flushing_last_use_keeps_token_cached(redis, api_as, cast, database_lookups):
    assert get_request_status(api_as) == 200
    flush_last_used()
    assert get_token(cast, "owner").last_used_at
    assert get_request_status(api_as) == 200
    assert len(database_lookups) == 1


def revoke_token(cast):
    session.delete(get_token(cast, "owner"))


def disable_token(cast):
    get_token(cast, "owner").enabled = False


def narrow_token(cast):
    get_token(cast, "owner").scopes = ["metrics:read"]


def bind_to_other_ip(cast):
    get_token(cast, "owner").allowed_ips = ["203.0.113.9"]


@pytest.mark.parametrize(
    ("change", "expected"), [(revoke_token, 401), (disable_token, 401), (narrow_token, 403), (bind_to_other_ip, 403)]
)
def test_token_change_takes_effect_immediately(redis, api_as, cast, database_lookups, change, expected):
    assert get_request_status(api_as) == 200
    change(cast)
    session.commit()
    assert get_request_status(api_as) == expected


def test_token_change_in_other_process_takes_effect_immediately(redis, api_as, cast, database_lookups):
    """This process sees only that the cache version in Redis changed."""
    assert get_request_status(api_as) == 200
    cached = dict(context.current().cached_tokens)
    disable_token(cast)
    session.commit()
    context.current().cached_tokens.update(cached)
    assert get_request_status(api_as) == 401


def test_deleted_cached_token_cannot_create_tokens(redis, api_as, cast, database_lookups):
    """The row was deleted directly in the database, so the cache is not invalidated and the token still reads."""
    assert get_request_status(api_as) == 200
    session.execute(text("delete from tokens where id = :id"), {"id": get_token(cast, "owner").id})
    session.commit()
    assert get_request_status(api_as) == 200
    before = session.scalar(select(func.count(Token.id)))
    refused = api_as("owner", "POST", "/api/api-tokens", json={"name": "x", "scopes": ["account:read"]})
    assert (refused.status_code, session.scalar(select(func.count(Token.id)))) == (404, before)
    assert get_request_status(api_as, method="POST", path="/api/profile/impersonation/stop") == 404


def test_rolled_back_token_change_keeps_cache(redis, api_as, cast, database_lookups):
    assert get_request_status(api_as) == 200
    disable_token(cast)
    session.flush()
    session.rollback()
    assert get_request_status(api_as) == 200
    assert len(database_lookups) == 1


def test_role_change_and_suspension_take_effect_immediately(redis, api_as, cast):
    member = session.scalar(select(Member).where(Member.account_id == cast.viewer.id))
    assert get_request_status(api_as, "viewer") == 200
    member.role.permissions = []
    session.commit()
    assert get_request_status(api_as, "viewer") == 403
    assert get_request_status(api_as, method="POST", path="/api/ssh-keys") == 422
    cast.owner.suspended_at = clock.now()
    session.commit()
    assert get_request_status(api_as, method="POST", path="/api/ssh-keys") == 403


def test_cached_token_expiry_is_checked_per_request(redis, api_as, cast, monkeypatch):
    get_token(cast, "owner").expires_at = later = clock.now() + timedelta(days=999)
    session.commit()
    assert get_request_status(api_as) == 200
    monkeypatch.setattr(clock, "now", lambda: later)
    assert get_request_status(api_as) == 401


def test_tokens_are_not_cached_without_redis(redis, api_as, cast, database_lookups):
    connect_rate_limits("")
    assert [get_request_status(api_as) for _ in range(3)] == [200] * 3
    assert len(database_lookups) == 3


def test_flushed_redis_gets_new_cache_version(redis, api_as, cast, database_lookups):
    assert get_request_status(api_as) == 200
    context.current().redis.flushall()
    assert [get_request_status(api_as) for _ in range(3)] == [200] * 3
    assert len(database_lookups) == 2
    disable_token(cast)
    session.commit()
    assert get_request_status(api_as) == 401
