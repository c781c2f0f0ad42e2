"""What is remembered of a token counts no longer than it is true."""

import math
from datetime import timedelta

import pytest
from sqlalchemy import func, select, text

from panel.core import clock, jobs
from panel.core.db import session
from panel.core.prepared_query import Question
from panel.models import Member, Token
from panel.ratelimit import windows
from panel.services import token_cache, tokens
from tests.support.redis_server import Redis
from worker.tasks.tokens import write_down_use

pytestmark = pytest.mark.processes


@pytest.fixture
def redis(tmp_path, world, monkeypatch):
    with Redis(tmp_path) as url:
        monkeypatch.setattr(jobs, "connection", jobs.connection)
        monkeypatch.setattr(windows, "PATIENCE", 60)  # however slow this machine is
        monkeypatch.setattr(token_cache, "KEPT", 600)
        monkeypatch.setattr(tokens, "away_until", -math.inf)  # whatever tests before have seen
        tokens.noted.clear()
        jobs.connect(url)
        windows.connect(url)
        token_cache.memory.clear()
        yield url
        windows.connect("")
        token_cache.memory.clear()


@pytest.fixture
def questions(redis, as_, monkeypatch):
    """How often the database was asked whose token it is, from when the making of the cast has settled."""
    as_("owner", "GET", "/api/connect")
    token_cache.memory.clear()
    asked = []
    one = Question.one
    monkeypatch.setattr(Question, "one", lambda self, value: asked.append(value) or one(self, value))
    return asked


def token_of(cast, who):
    return session.scalar(select(Token).where(Token.secret_hash == tokens.hashed(cast.tokens[who])))


def status(as_, who="owner", method="GET", path="/api/instances"):
    return as_(who, method, path).status_code


def test_a_busy_program_costs_the_database_nothing(redis, as_, cast, questions):
    assert [status(as_) for _ in range(5)] == [200] * 5
    assert len(questions) == 1


def test_writing_down_its_use_changes_nothing(redis, as_, cast, questions):
    assert status(as_) == 200
    write_down_use()
    assert token_of(cast, "owner").last_used_at
    assert status(as_) == 200
    assert len(questions) == 1


def revoke(cast):
    session.delete(token_of(cast, "owner"))


def disable(cast):
    token_of(cast, "owner").enabled = False


def narrow(cast):
    token_of(cast, "owner").scopes = ["metrics:read"]


def bind_elsewhere(cast):
    token_of(cast, "owner").allowed_ips = ["203.0.113.9"]


@pytest.mark.parametrize(("change", "expected"), [(revoke, 401), (disable, 401), (narrow, 403), (bind_elsewhere, 403)])
def test_a_change_of_the_token_counts_at_once(redis, as_, cast, questions, change, expected):
    assert status(as_) == 200
    change(cast)
    session.commit()
    assert status(as_) == expected


def test_a_change_made_by_another_process_counts_at_once(redis, as_, cast, questions):
    """There only the word in Redis changes: this process hears of nothing else."""
    assert status(as_) == 200
    remembered = dict(token_cache.memory)
    disable(cast)
    session.commit()
    token_cache.memory.update(remembered)
    assert status(as_) == 401


def test_a_token_that_is_gone_gives_nothing_to_another(redis, as_, cast, questions):
    """It was removed past the panel, which remembers it for a moment: nothing bounds what it would give."""
    assert status(as_) == 200
    session.execute(text("delete from tokens where id = :id"), {"id": token_of(cast, "owner").id})
    session.commit()
    assert status(as_) == 200
    before = session.scalar(select(func.count(Token.id)))
    refused = as_("owner", "POST", "/api/api-tokens", json={"name": "x", "scopes": ["account:read"]})
    assert (refused.status_code, session.scalar(select(func.count(Token.id)))) == (404, before)
    assert status(as_, method="POST", path="/api/profile/impersonation/stop") == 404


def test_a_change_that_is_taken_back_changes_nothing(redis, as_, cast, questions):
    assert status(as_) == 200
    disable(cast)
    session.flush()
    session.rollback()
    assert status(as_) == 200
    assert len(questions) == 1


def test_a_role_and_a_suspension_count_at_once(redis, as_, cast):
    member = session.scalar(select(Member).where(Member.account_id == cast.viewer.id))
    assert status(as_, "viewer") == 200
    member.role.permissions = []
    session.commit()
    assert status(as_, "viewer") == 403
    assert status(as_, method="POST", path="/api/ssh-keys") == 422
    cast.owner.suspended_at = clock.now()
    session.commit()
    assert status(as_, method="POST", path="/api/ssh-keys") == 403


def test_an_expiry_is_looked_at_each_time(redis, as_, cast, monkeypatch):
    token_of(cast, "owner").expires_at = later = clock.now() + timedelta(days=999)
    session.commit()
    assert status(as_) == 200
    monkeypatch.setattr(clock, "now", lambda: later)
    assert status(as_) == 401


def test_without_redis_nothing_is_remembered(redis, as_, cast, questions):
    windows.connect("")
    assert [status(as_) for _ in range(3)] == [200] * 3
    assert len(questions) == 3


def test_a_redis_that_lost_everything_gets_a_new_word(redis, as_, cast, questions):
    assert status(as_) == 200
    jobs.connection.flushall()
    assert [status(as_) for _ in range(3)] == [200] * 3
    assert len(questions) == 2
    disable(cast)
    session.commit()
    assert status(as_) == 401
