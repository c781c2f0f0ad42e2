"""Last use of a token: recorded in Redis, shown immediately, written to the database later."""

import math

import pytest
from redis import ConnectionError as RedisConnectionError
from sqlalchemy import select

from panel.core import clock, context
from panel.core.db import session
from panel.models import Token
from panel.services import tokens
from worker.tasks.tokens import flush_last_used


class FakeRedisHash:
    """One hash of a Redis. Refuses connections when not `is_available`, and counts the commands."""

    def __init__(self):
        self.fields, self.is_available, self.command_count = {}, True, 0

    def respond(self, value):
        self.command_count += 1
        if not self.is_available:
            raise RedisConnectionError("refused")
        return value

    def hset(self, name, key, value):
        self.respond(None)
        self.fields[key.encode()] = value

    def set(self, name, value):
        """Ignore the version key of the token cache, which is not in this hash."""

    def hmget(self, name, keys):
        return self.respond([self.fields.get(key.encode()) for key in keys])

    def hgetall(self, name):
        return self.respond(dict(self.fields))

    def eval(self, script, count, name, *pairs):
        assert script == tokens.DELETE_IF_UNCHANGED_SCRIPT
        for key, value in zip(pairs[::2], pairs[1::2], strict=True):
            if self.fields.get(key) == value:
                del self.fields[key]


@pytest.fixture
def redis(rolled_back_app, monkeypatch):
    redis_hash = FakeRedisHash()
    monkeypatch.setattr(context.current(), "redis", redis_hash)
    monkeypatch.setattr(context.current(), "redis_paused_until", -math.inf)
    context.current().recorded_token_uses.clear()
    return redis_hash


@pytest.fixture
def watched_token_id(cast):
    token, cast.tokens["watched"] = tokens.issue("user", name="w", account=cast.owner, scopes=["metrics:read"])
    session.commit()
    return token.id


def reload_token(token_id):
    return session.scalar(select(Token).where(Token.id == token_id))


def test_token_use_is_shown_immediately_without_database_write(api_as, redis, watched_token_id, queries):
    """IDT-35, OP-03: also a use that is rejected because of the scope."""
    get_record = lambda: api_as("owner", "GET", f"/api/api-token/{watched_token_id}").json["api_token"]  # noqa: E731
    assert get_record()["last_used_at"] is None
    before = clock.now().isoformat()
    queries.clear()
    assert api_as("watched", "GET", "/api/instances", environ_base={"REMOTE_ADDR": "203.0.113.9"}).status_code == 403
    assert get_record()["last_used_at"] > before
    assert get_record()["last_used_ip"] == "203.0.113.9"
    assert not [statement for statement in queries if statement.startswith(("UPDATE", "INSERT", "DELETE"))]
    assert reload_token(watched_token_id).last_used_at is None


@pytest.mark.parametrize(
    ("caller", "path", "status"),
    [
        ("watched", "/api/v1/auth", 403),
        ("watched", "/api/v1/billing/auth", 403),
        ("admin", "/api/v1/billing/auth", 403),
        ("admin", "/api/connect", 401),
        ("billing", "/api/v1/users", 403),
    ],
)
def test_token_use_on_forbidden_surface_is_recorded(api_as, cast, redis, watched_token_id, caller, path, status):
    """OP-03: a use on an API that rejects the token is recorded as well."""
    assert api_as(caller, "GET", path, environ_base={"REMOTE_ADDR": "203.0.113.9"}).status_code == status
    token = session.scalar(select(Token).where(Token.secret_hash == tokens.hash_secret(cast.tokens[caller])))
    assert tokens.refresh_last_used([token])[0].last_used_ip == "203.0.113.9"


def test_token_use_is_flushed_to_database(api_as, redis, watched_token_id):
    before = clock.now()
    api_as("watched", "GET", "/api/connect")
    flush_last_used()
    assert redis.fields == {}
    assert reload_token(watched_token_id).last_used_ip == "127.0.0.1"
    assert before <= reload_token(watched_token_id).last_used_at <= clock.now()
    flush_last_used()


def test_token_use_during_flush_is_recorded(api_as, redis, watched_token_id):
    """IDT-35: `last_used_at` never goes back, also between the two steps of the flush."""
    get_last_ip = lambda: api_as("owner", "GET", f"/api/api-token/{watched_token_id}").json["api_token"]["last_used_ip"]  # noqa: E731
    api_as("watched", "GET", "/api/connect")
    tokens.write_last_use()
    assert watched_token_id.encode() in redis.fields
    context.current().recorded_token_uses.clear()
    api_as("watched", "GET", "/api/connect", environ_base={"REMOTE_ADDR": "203.0.113.9"})
    session.commit()
    assert get_last_ip() == "203.0.113.9"
    flush_last_used()
    assert (get_last_ip(), reload_token(watched_token_id).last_used_ip) == ("203.0.113.9", "203.0.113.9")


def test_requests_by_other_tokens_record_no_use(api_as, redis, watched_token_id):
    api_as("owner", "GET", f"/api/api-token/{watched_token_id}")
    api_as("nobody", "GET", "/api/connect", headers={"Authorization": "Bearer " + "x" * 43})
    assert watched_token_id.encode() not in redis.fields


def test_token_last_use_is_recorded_at_intervals(redis, watched_token_id, monkeypatch):
    now = clock.now()
    monkeypatch.setattr(clock, "now", lambda: now)
    for _ in range(50):
        tokens.record_use(watched_token_id, "127.0.0.1")
    assert redis.command_count == 1


def test_unavailable_redis_delays_only_one_request(api_as, redis, watched_token_id):
    redis.is_available = False
    for caller in ("watched", "owner", "watched", "outsider"):
        assert api_as(caller, "GET", "/api/connect").status_code == 200
    assert api_as("owner", "GET", "/api/api-tokens").status_code == 200
    assert redis.command_count == 1
