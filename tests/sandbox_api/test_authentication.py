"""Who may call the sandbox API: every route with every kind of caller, and what keys leave behind."""

import pytest
from sqlalchemy import select

from api.sandbox.kit import bp
from panel.auth import permissions
from panel.core import clock, context
from panel.core.db import session
from panel.models import AuditEntry, MicrovmApiKey
from panel.services import settings, tokens

INVALID_KEY = {"code": 401, "message": "Invalid API key"}


@pytest.fixture
def routes(app):
    """(method, path below the prefix, view) of every route that needs a key."""
    rules = [rule for rule in app.url_map.iter_rules() if rule.endpoint.startswith(f"{bp.name}.")]
    listed = []
    for rule in rules:
        view = app.view_functions[rule.endpoint]
        path = rule.rule.removeprefix(bp.url_prefix).replace("<sandbox_id>", "abc234").replace("<alias>", "base")
        (method,) = rule.methods - {"HEAD", "OPTIONS"}
        if view.requirement.permission != permissions.PUBLIC:
            listed.append((method, path, view))
    assert len(listed) > 15
    return listed


def test_every_route_requires_a_key(call, cast, keys, routes, unlimited_rates):
    """SBX-01, SBX-02: a missing, mistyped or revoked key, and tokens of all kinds, in both headers."""
    session.scalars(select(MicrovmApiKey).where(MicrovmApiKey.name == "outsider")).one().revoked_at = clock.now()
    session.commit()
    mistyped = keys["owner"][:-1] + ("0" if keys["owner"][-1] != "0" else "1")
    for method, path, _view in routes:
        for value in ("", mistyped, keys["outsider"], "x" * 5000, *cast.tokens.values()):
            answer = call(method, path, {}, key=value)
            assert (answer.status_code, answer.json) == (401, INVALID_KEY), (path, value)
        for token in cast.tokens.values():
            answer = call(method, path, {}, key="", headers={"Authorization": f"Bearer {token}"})
            assert answer.status_code == 401, path
        assert call(method, path, {}).status_code not in (401, 403), path


def test_key_is_read_from_its_header_only(call, keys):
    for headers in ({"Authorization": f"Bearer {keys['owner']}"}, {"Cookie": f"X-API-Key={keys['owner']}"}):
        assert call("GET", "/v2/sandboxes", key="", headers=headers).status_code == 401
    assert call("GET", f"/v2/sandboxes?X-API-Key={keys['owner']}", key="").status_code == 401


def test_other_headers_of_sdks_do_not_matter(call):
    assert call("GET", "/v2/sandboxes", headers={"Authorization": "Bearer sk_e2b_old"}).status_code == 200


def test_revoked_key_is_refused_from_the_next_request_on(call, api_as):
    """SBX-15"""
    assert call("GET", "/v2/sandboxes").status_code == 200
    rows = api_as("owner", "GET", "/api/microvm/api-keys").json["data"]
    api_as("owner", "POST", f"/api/microvm/api-key/{rows[0]['id']}/revoke")
    answer = call("GET", "/v2/sandboxes")
    assert (answer.status_code, answer.json) == (401, INVALID_KEY)


def test_suspended_account_has_read_access_only(call, cast, routes):
    cast.owner.suspended_at = clock.now()
    session.commit()
    for method, path, _view in routes:
        answer = call(method, path, {})
        assert (answer.status_code == 403) == (method != "GET"), path
        if method != "GET":
            assert answer.json["error_code"] == "account_suspended"


def test_rate_limit_counts_per_key(call, keys, cast):
    settings.update({"rate_limit_requests": 3})
    assert [call("GET", "/v2/sandboxes").status_code for _ in range(4)] == [200, 200, 200, 429]
    answer = call("GET", "/v2/sandboxes")
    assert answer.json["code"] == 429
    assert int(answer.headers["Retry-After"]) > 0
    assert call("GET", "/v2/sandboxes", key=keys["outsider"]).status_code == 200
    statuses = [call("GET", "/v2/sandboxes", key="e2b_" + str(number) * 40).status_code for number in range(4)]
    assert statuses == [401, 401, 401, 429]


def test_health_needs_no_key(call):
    assert call("GET", "/health", key="").status_code == 204


def test_use_of_key_is_recorded(call, monkeypatch):
    """SBX-14"""
    uses = []
    monkeypatch.setattr(tokens, "record_use", lambda *use: uses.append(use))
    call("GET", "/v2/sandboxes", key="e2b_" + "0" * 40)
    assert uses == []
    call("GET", "/v2/sandboxes")
    call("GET", "/sandboxes/unknown")
    key = session.scalars(select(MicrovmApiKey).where(MicrovmApiKey.name == "owner")).one()
    assert uses == [(key.id, "127.0.0.1")] * 2


class RecordedUses:
    """Stands in for Redis: it has one recorded use."""

    def __init__(self, key_id):
        self.pending = {key_id.encode(): b'["2030-01-02T03:04:05.678+00:00","203.0.113.9"]'}

    def hgetall(self, _name):
        return self.pending

    def hmget(self, _name, ids):
        return [self.pending.get(key_id.encode()) for key_id in ids]

    def eval(self, *_):
        pass

    def hset(self, *_):
        pass

    def set(self, *_):
        pass


def test_recorded_use_is_listed_and_written(api_as, keys, monkeypatch):
    key = session.scalars(select(MicrovmApiKey).where(MicrovmApiKey.name == "owner")).one()
    monkeypatch.setattr(context.current(), "redis", RecordedUses(key.id))
    monkeypatch.setattr(context.current(), "redis_paused_until", 0)
    (row,) = api_as("owner", "GET", "/api/microvm/api-keys").json["data"]
    assert (row["last_used_at"], row["last_used_ip"]) == ("2030-01-02T03:04:05.678000Z", "203.0.113.9")
    tokens.write_last_use()
    session.refresh(key)
    assert key.last_used_ip == "203.0.113.9"


def test_audit_log_names_the_key_that_acted(call, create_sandbox):
    sandbox_id = create_sandbox()["sandboxID"]
    call("DELETE", f"/sandboxes/{sandbox_id}")
    entries = session.scalars(select(AuditEntry).where(AuditEntry.action.startswith("sandbox."))).all()
    assert {entry.action for entry in entries} == {"sandbox.api.create", "sandbox.api.kill"}
    assert {entry.token_name for entry in entries} == {"owner"}
    assert {entry.object_type for entry in entries} == {"microvm"}
