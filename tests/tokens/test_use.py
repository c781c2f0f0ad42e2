"""When and from where a token was last used: noted in Redis, shown at once, written down later."""

import math

import pytest
from redis import ConnectionError as Away
from sqlalchemy import select

from panel.core import clock, context
from panel.core.db import session
from panel.models import Token
from panel.services import tokens
from worker.tasks.tokens import flush_last_used


class FakeRedisHash:
    """One hash of a Redis; `away` it answers nothing. Counts how often it is asked."""

    def __init__(self):
        self.held, self.away, self.asked = {}, False, 0

    def answer(self, value):
        self.asked += 1
        if self.away:
            raise Away("refused")
        return value

    def hset(self, name, key, value):
        self.answer(None)
        self.held[key.encode()] = value

    def set(self, name, value):
        """The word that changes with what access depends on: not of this hash."""

    def hmget(self, name, keys):
        return self.answer([self.held.get(key.encode()) for key in keys])

    def hgetall(self, name):
        return self.answer(dict(self.held))

    def eval(self, script, count, name, *pairs):
        assert script == tokens.DELETE_IF_UNCHANGED_SCRIPT
        for key, value in zip(pairs[::2], pairs[1::2], strict=True):
            if self.held.get(key) == value:
                del self.held[key]


@pytest.fixture
def redis(monkeypatch):
    made = FakeRedisHash()
    monkeypatch.setattr(context.current(), "redis", made)
    monkeypatch.setattr(context.current(), "redis_paused_until", -math.inf)
    context.current().noted_token_uses.clear()
    return made


@pytest.fixture
def watched_token(cast):
    token, cast.tokens["watched"] = tokens.issue("user", name="w", account=cast.owner, scopes=["metrics:read"])
    session.commit()
    return token.id


def reload_token(token_id):
    return session.scalar(select(Token).where(Token.id == token_id))


def test_a_use_is_shown_at_once_and_costs_no_write(api_as, redis, watched_token, queries):
    """IDT-35, OP-03: also one that is refused for its scope."""
    shown = lambda: api_as("owner", "GET", f"/api/api-token/{watched_token}").json["api_token"]  # noqa: E731
    assert shown()["last_used_at"] is None
    before = clock.now().isoformat()
    queries.clear()
    assert api_as("watched", "GET", "/api/instances", environ_base={"REMOTE_ADDR": "203.0.113.9"}).status_code == 403
    assert shown()["last_used_at"] > before
    assert shown()["last_used_ip"] == "203.0.113.9"
    assert not [each for each in queries if each.startswith(("UPDATE", "INSERT", "DELETE"))]
    assert reload_token(watched_token).last_used_at is None


@pytest.mark.parametrize(
    ("who", "path", "status"),
    [
        ("watched", "/api/v1/auth", 403),
        ("watched", "/api/v1/billing/auth", 403),
        ("admin", "/api/v1/billing/auth", 403),
        ("admin", "/api/connect", 401),
        ("billing", "/api/v1/users", 403),
    ],
)
def test_a_use_where_the_token_opens_nothing_is_noted_too(api_as, cast, redis, watched_token, who, path, status):
    """OP-03: whoever tries a token on another surface leaves the same trace."""
    assert api_as(who, "GET", path, environ_base={"REMOTE_ADDR": "203.0.113.9"}).status_code == status
    token = session.scalar(select(Token).where(Token.secret_hash == tokens.hash_secret(cast.tokens[who])))
    assert tokens.refresh_last_used([token])[0].last_used_ip == "203.0.113.9"


def test_a_use_is_written_down(api_as, redis, watched_token):
    before = clock.now()
    api_as("watched", "GET", "/api/connect")
    flush_last_used()
    assert redis.held == {}
    assert reload_token(watched_token).last_used_ip == "127.0.0.1"
    assert before <= reload_token(watched_token).last_used_at <= clock.now()
    flush_last_used()


def test_a_use_while_others_are_written_down_is_kept(api_as, redis, watched_token):
    """IDT-35: `last_used_at` never goes back, also for who looks between the two steps."""
    shown = lambda: api_as("owner", "GET", f"/api/api-token/{watched_token}").json["api_token"]["last_used_ip"]  # noqa: E731
    api_as("watched", "GET", "/api/connect")
    tokens.write_last_use()
    assert watched_token.encode() in redis.held
    context.current().noted_token_uses.clear()
    api_as("watched", "GET", "/api/connect", environ_base={"REMOTE_ADDR": "203.0.113.9"})
    session.commit()
    assert shown() == "203.0.113.9"
    flush_last_used()
    assert (shown(), reload_token(watched_token).last_used_ip) == ("203.0.113.9", "203.0.113.9")


def test_what_is_not_the_token_s_own_use_changes_nothing(api_as, redis, watched_token):
    api_as("owner", "GET", f"/api/api-token/{watched_token}")
    api_as("nobody", "GET", "/api/connect", headers={"Authorization": "Bearer " + "x" * 43})
    assert watched_token.encode() not in redis.held


def test_last_use_of_a_token_is_recorded_at_intervals(redis, watched_token, monkeypatch):
    now = clock.now()
    monkeypatch.setattr(clock, "now", lambda: now)
    for _ in range(50):
        tokens.record_use(watched_token, "127.0.0.1")
    assert redis.asked == 1


def test_a_redis_that_is_away_holds_up_one_request(api_as, redis, watched_token):
    redis.away = True
    for who in ("watched", "owner", "watched", "outsider"):
        assert api_as(who, "GET", "/api/connect").status_code == 200
    assert api_as("owner", "GET", "/api/api-tokens").status_code == 200
    assert redis.asked == 1
