"""When tokens end (specification 4.7)."""

from datetime import datetime, timedelta

import pytest

from panel.core import clock


def iso(moment):
    return moment.isoformat()


@pytest.mark.parametrize(
    "wrong", ["yesterday", 5, "2026-13-01T00:00:00Z", "0001-01-01T00:00:00+14:00", "2020-01-01T00:00:00Z"]
)
def test_an_end_must_be_a_moment_in_the_future(api_as, wrong):
    body = {"name": "x", "scopes": ["account:read"], "expires_at": wrong}
    answer = api_as("owner", "POST", "/api/api-tokens", json=body)
    assert answer.status_code == 422
    assert "expires_at" in answer.json["errors"]


@pytest.fixture
def ending_token(api_as, issue_token):
    """A token that ends in a day, and the way to move its end."""
    token = issue_token(name="ending", expires_at=clock.now() + timedelta(days=1))

    def moved(expires_at):
        moment = expires_at if expires_at is None or isinstance(expires_at, str) else iso(expires_at)
        return api_as("owner", "PATCH", f"/api/api-token/{token.id}", json={"expires_at": moment})

    moved.now = lambda: api_as("owner", "GET", f"/api/api-token/{token.id}").json["api_token"]["expires_at"]
    return moved


def test_an_earlier_end_takes_effect(api_as, ending_token, monkeypatch):
    """IDT-46, IDT-53: at its end the token is refused everywhere."""
    sooner = clock.now() + timedelta(minutes=10)
    answer = ending_token(sooner)
    assert answer.status_code == 200
    assert datetime.fromisoformat(answer.json["api_token"]["expires_at"]) == sooner
    assert api_as("ending", "GET", "/api/connect").status_code == 200
    monkeypatch.setattr(clock, "now", lambda: sooner)
    for path in ("/api/connect", "/api/instances", "/api/api-tokens", "/version"):
        assert api_as("ending", "GET", path).status_code == 401


def test_the_same_end_is_accepted(ending_token):
    """IDT-47: as it is shown, and in another zone."""
    before = ending_token.now()
    for same in (before, datetime.fromisoformat(before).astimezone().isoformat()):
        assert ending_token(same).status_code == 200
        assert ending_token.now() == before


def test_an_end_cannot_be_put_off(ending_token):
    """IDT-48, IDT-49, IDT-50, IDT-51"""
    before = ending_token.now()
    tomorrow = datetime.fromisoformat(before)
    an_hour = timedelta(hours=1)
    for refused in (tomorrow + timedelta(days=1), tomorrow + timedelta(microseconds=1), clock.now() - an_hour, None):
        answer = ending_token(refused)
        assert answer.status_code == 422
        assert list(answer.json["errors"]) == ["expires_at"]
        assert ending_token.now() == before


def test_a_first_end_can_be_set(api_as, issue_token):
    """IDT-52"""
    path = f"/api/api-token/{issue_token(name='endless').id}"
    assert api_as("owner", "PATCH", path, json={"expires_at": None}).status_code == 200
    hour = clock.now() + timedelta(hours=1)
    answer = api_as("owner", "PATCH", path, json={"expires_at": iso(hour)})
    assert datetime.fromisoformat(answer.json["api_token"]["expires_at"]) == hour
    assert api_as("owner", "PATCH", path, json={"expires_at": None}).status_code == 422


def test_what_has_ended_stays_ended(api_as, issue_token):
    token = issue_token(name="over", expires_at=clock.now() - timedelta(hours=1))
    for moment in (clock.now() + timedelta(hours=1), token.expires_at):
        answer = api_as("owner", "PATCH", f"/api/api-token/{token.id}", json={"expires_at": iso(moment)})
        assert answer.status_code == 422
    assert api_as("over", "GET", "/api/connect").status_code == 401
