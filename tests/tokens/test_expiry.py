"""When tokens end (specification 4.7)."""

from datetime import datetime, timedelta

import pytest

from panel.core import clock


def iso(moment):
    return moment.isoformat()


@pytest.mark.parametrize(
    "wrong", ["yesterday", 5, "2026-13-01T00:00:00Z", "0001-01-01T00:00:00+14:00", "2020-01-01T00:00:00Z"]
)
def test_an_end_must_be_a_moment_in_the_future(as_, wrong):
    body = {"name": "x", "scopes": ["account:read"], "expires_at": wrong}
    answer = as_("owner", "POST", "/api/api-tokens", json=body)
    assert answer.status_code == 422
    assert "expires_at" in answer.json["errors"]


@pytest.fixture
def ending(as_, issued):
    """A token that ends in a day, and the way to move its end."""
    token = issued(name="ending", expires_at=clock.now() + timedelta(days=1))

    def moved(expires_at):
        moment = expires_at if expires_at is None or isinstance(expires_at, str) else iso(expires_at)
        return as_("owner", "PATCH", f"/api/api-token/{token.id}", json={"expires_at": moment})

    moved.now = lambda: as_("owner", "GET", f"/api/api-token/{token.id}").json["api_token"]["expires_at"]
    return moved


def test_an_earlier_end_takes_effect(as_, ending, monkeypatch):
    """IDT-46, IDT-53: at its end the token is refused everywhere."""
    sooner = clock.now() + timedelta(minutes=10)
    answer = ending(sooner)
    assert answer.status_code == 200
    assert datetime.fromisoformat(answer.json["api_token"]["expires_at"]) == sooner
    assert as_("ending", "GET", "/api/connect").status_code == 200
    monkeypatch.setattr(clock, "now", lambda: sooner)
    for path in ("/api/connect", "/api/instances", "/api/api-tokens", "/version"):
        assert as_("ending", "GET", path).status_code == 401


def test_the_same_end_is_accepted(ending):
    """IDT-47: as it is shown, and in another zone."""
    before = ending.now()
    for same in (before, datetime.fromisoformat(before).astimezone().isoformat()):
        assert ending(same).status_code == 200
        assert ending.now() == before


def test_an_end_cannot_be_put_off(ending):
    """IDT-48, IDT-49, IDT-50, IDT-51"""
    before = ending.now()
    tomorrow = datetime.fromisoformat(before)
    an_hour = timedelta(hours=1)
    for refused in (tomorrow + timedelta(days=1), tomorrow + timedelta(microseconds=1), clock.now() - an_hour, None):
        answer = ending(refused)
        assert answer.status_code == 422
        assert list(answer.json["errors"]) == ["expires_at"]
        assert ending.now() == before


def test_a_first_end_can_be_set(as_, issued):
    """IDT-52"""
    path = f"/api/api-token/{issued(name='endless').id}"
    assert as_("owner", "PATCH", path, json={"expires_at": None}).status_code == 200
    hour = clock.now() + timedelta(hours=1)
    answer = as_("owner", "PATCH", path, json={"expires_at": iso(hour)})
    assert datetime.fromisoformat(answer.json["api_token"]["expires_at"]) == hour
    assert as_("owner", "PATCH", path, json={"expires_at": None}).status_code == 422


def test_what_has_ended_stays_ended(as_, issued):
    token = issued(name="over", expires_at=clock.now() - timedelta(hours=1))
    for moment in (clock.now() + timedelta(hours=1), token.expires_at):
        answer = as_("owner", "PATCH", f"/api/api-token/{token.id}", json={"expires_at": iso(moment)})
        assert answer.status_code == 422
    assert as_("over", "GET", "/api/connect").status_code == 401
