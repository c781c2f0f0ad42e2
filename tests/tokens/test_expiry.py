"""Expiry of tokens."""

from datetime import datetime, timedelta

import pytest

from panel.core import clock


def format_time(moment):
    return moment.isoformat()


@pytest.mark.parametrize(
    "wrong", ["yesterday", 5, "2026-13-01T00:00:00Z", "0001-01-01T00:00:00+14:00", "2020-01-01T00:00:00Z"]
)
def test_expiry_must_be_in_future(api_as, wrong):
    body = {"name": "x", "scopes": ["account:read"], "expires_at": wrong}
    answer = api_as("owner", "POST", "/api/api-tokens", json=body)
    assert answer.status_code == 422
    assert "expires_at" in answer.json["errors"]


@pytest.fixture
def change_expiry(api_as, issue_token):
    """Issue a token that expires in a day. Return a function that changes its expiry; `get()` returns the expiry."""
    token = issue_token(name="ending", expires_at=clock.now() + timedelta(days=1))

    def change(expires_at):
        moment = expires_at if expires_at is None or isinstance(expires_at, str) else format_time(expires_at)
        return api_as("owner", "PATCH", f"/api/api-token/{token.id}", json={"expires_at": moment})

    change.get = lambda: api_as("owner", "GET", f"/api/api-token/{token.id}").json["api_token"]["expires_at"]
    return change


def test_earlier_expiry_takes_effect(api_as, change_expiry, monkeypatch):
    """IDT-46, IDT-53: after its expiry the token is rejected on every route."""
    sooner = clock.now() + timedelta(minutes=10)
    answer = change_expiry(sooner)
    assert answer.status_code == 200
    assert datetime.fromisoformat(answer.json["api_token"]["expires_at"]) == sooner
    assert api_as("ending", "GET", "/api/connect").status_code == 200
    monkeypatch.setattr(clock, "now", lambda: sooner)
    for path in ("/api/connect", "/api/instances", "/api/api-tokens", "/version"):
        assert api_as("ending", "GET", path).status_code == 401


def test_unchanged_expiry_is_accepted(change_expiry):
    """IDT-47: as the API returned it, and in another time zone."""
    before = change_expiry.get()
    for same in (before, datetime.fromisoformat(before).astimezone().isoformat()):
        assert change_expiry(same).status_code == 200
        assert change_expiry.get() == before


def test_expiry_cannot_be_extended(change_expiry):
    """IDT-48, IDT-49, IDT-50, IDT-51"""
    before = change_expiry.get()
    tomorrow = datetime.fromisoformat(before)
    an_hour = timedelta(hours=1)
    for refused in (tomorrow + timedelta(days=1), tomorrow + timedelta(microseconds=1), clock.now() - an_hour, None):
        answer = change_expiry(refused)
        assert answer.status_code == 422
        assert list(answer.json["errors"]) == ["expires_at"]
        assert change_expiry.get() == before


def test_expiry_can_be_added_to_unlimited_token(api_as, issue_token):
    """IDT-52"""
    path = f"/api/api-token/{issue_token(name='endless').id}"
    assert api_as("owner", "PATCH", path, json={"expires_at": None}).status_code == 200
    hour = clock.now() + timedelta(hours=1)
    answer = api_as("owner", "PATCH", path, json={"expires_at": format_time(hour)})
    assert datetime.fromisoformat(answer.json["api_token"]["expires_at"]) == hour
    assert api_as("owner", "PATCH", path, json={"expires_at": None}).status_code == 422


def test_expired_token_cannot_be_extended(api_as, issue_token):
    token = issue_token(name="over", expires_at=clock.now() - timedelta(hours=1))
    for moment in (clock.now() + timedelta(hours=1), token.expires_at):
        answer = api_as("owner", "PATCH", f"/api/api-token/{token.id}", json={"expires_at": format_time(moment)})
        assert answer.status_code == 422
    assert api_as("over", "GET", "/api/connect").status_code == 401
