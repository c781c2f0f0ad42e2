"""What is remembered of a token counts no longer than it is true."""

import math
from datetime import timedelta

import pytest
from sqlalchemy import func, select, text

from panel.core import clock, context, jobs
from panel.core.db import session
from panel.models import Member, Token
from panel.ratelimit import windows
from panel.services import token_cache, tokens
from tests.conftest import connect_rate_limits
from tests.support.redis_server import RedisServer
from worker.tasks.tokens import flush_last_used

pytestmark = pytest.mark.processes


@pytest.fixture
def redis(tmp_path, rolled_back_app, monkeypatch):
    with RedisServer(tmp_path) as url:
        monkeypatch.setattr(windows, "REDIS_TIMEOUT_SECONDS", 60)  # however slow this machine is
        monkeypatch.setattr(token_cache, "CACHE_TTL_SECONDS", 600)
        monkeypatch.setattr(context.current(), "redis_paused_until", -math.inf)  # whatever tests before have seen
        context.current().noted_token_uses.clear()
        monkeypatch.setattr(context.current(), "redis", jobs.create_client(url))
        connect_rate_limits(url)
        context.current().cached_tokens.clear()
        yield url
        connect_rate_limits("")
        context.current().cached_tokens.clear()


@pytest.fixture
def database_lookups(redis, api_as, monkeypatch):
    """How often the database was asked whose token it is, from when the making of the cast has settled."""
    api_as("owner", "GET", "/api/connect")
    context.current().cached_tokens.clear()
    asked = []
    find_by_value = tokens.find_by_value
    monkeypatch.setattr(tokens, "find_by_value", lambda value: asked.append(value) or find_by_value(value))
    return asked


def get_token(cast, who):
    return session.scalar(select(Token).where(Token.secret_hash == tokens.hash_secret(cast.tokens[who])))


def request_status(as_, who="owner", method="GET", path="/api/instances"):
    return as_(who, method, path).status_code


def test_a_busy_program_costs_the_database_nothing(redis, api_as, cast, database_lookups):
    assert [request_status(api_as) for _ in range(5)] == [200] * 5
    assert len(database_lookups) == 1


def test_writing_down_its_use_changes_nothing(redis, api_as, cast, database_lookups):
    assert request_status(api_as) == 200
    flush_last_used()
    assert get_token(cast, "owner").last_used_at
    assert request_status(api_as) == 200
    assert len(database_lookups) == 1


def revoke_token(cast):
    session.delete(get_token(cast, "owner"))


def disable_token(cast):
    get_token(cast, "owner").enabled = False


def narrow_token(cast):
    get_token(cast, "owner").scopes = ["metrics:read"]


def bind_elsewhere(cast):
    get_token(cast, "owner").allowed_ips = ["203.0.113.9"]


@pytest.mark.parametrize(
    ("change", "expected"), [(revoke_token, 401), (disable_token, 401), (narrow_token, 403), (bind_elsewhere, 403)]
)
def test_a_change_of_the_token_counts_at_once(redis, api_as, cast, database_lookups, change, expected):
    assert request_status(api_as) == 200
    change(cast)
    session.commit()
    assert request_status(api_as) == expected


def test_a_change_made_by_another_process_counts_at_once(redis, api_as, cast, database_lookups):
    """There only the word in Redis changes: this process hears of nothing else."""
    assert request_status(api_as) == 200
    remembered = dict(context.current().cached_tokens)
    disable_token(cast)
    session.commit()
    context.current().cached_tokens.update(remembered)
    assert request_status(api_as) == 401


def test_a_token_that_is_gone_gives_nothing_to_another(redis, api_as, cast, database_lookups):
    """It was removed past the panel, which remembers it for a moment: nothing bounds what it would give."""
    assert request_status(api_as) == 200
    session.execute(text("delete from tokens where id = :id"), {"id": get_token(cast, "owner").id})
    session.commit()
    assert request_status(api_as) == 200
    before = session.scalar(select(func.count(Token.id)))
    refused = api_as("owner", "POST", "/api/api-tokens", json={"name": "x", "scopes": ["account:read"]})
    assert (refused.status_code, session.scalar(select(func.count(Token.id)))) == (404, before)
    assert request_status(api_as, method="POST", path="/api/profile/impersonation/stop") == 404


def test_a_change_that_is_taken_back_changes_nothing(redis, api_as, cast, database_lookups):
    assert request_status(api_as) == 200
    disable_token(cast)
    session.flush()
    session.rollback()
    assert request_status(api_as) == 200
    assert len(database_lookups) == 1


def test_a_role_and_a_suspension_count_at_once(redis, api_as, cast):
    member = session.scalar(select(Member).where(Member.account_id == cast.viewer.id))
    assert request_status(api_as, "viewer") == 200
    member.role.permissions = []
    session.commit()
    assert request_status(api_as, "viewer") == 403
    assert request_status(api_as, method="POST", path="/api/ssh-keys") == 422
    cast.owner.suspended_at = clock.now()
    session.commit()
    assert request_status(api_as, method="POST", path="/api/ssh-keys") == 403


def test_an_expiry_is_looked_at_each_time(redis, api_as, cast, monkeypatch):
    get_token(cast, "owner").expires_at = later = clock.now() + timedelta(days=999)
    session.commit()
    assert request_status(api_as) == 200
    monkeypatch.setattr(clock, "now", lambda: later)
    assert request_status(api_as) == 401


def test_without_redis_nothing_is_remembered(redis, api_as, cast, database_lookups):
    connect_rate_limits("")
    assert [request_status(api_as) for _ in range(3)] == [200] * 3
    assert len(database_lookups) == 3


def test_a_redis_without_data_gets_a_new_cache_version(redis, api_as, cast, database_lookups):
    assert request_status(api_as) == 200
    context.current().redis.flushall()
    assert [request_status(api_as) for _ in range(3)] == [200] * 3
    assert len(database_lookups) == 2
    disable_token(cast)
    session.commit()
    assert request_status(api_as) == 401
