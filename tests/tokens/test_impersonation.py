"""Impersonation tokens."""

from datetime import datetime, timedelta

import pytest
from sqlalchemy import select

from panel.core import clock
from panel.core.db import session
from panel.models import AuditEntry, Token
from panel.services import settings, tokens
from tests.support.cast import UNKNOWN_ID


@pytest.fixture
def impersonate(api_as, cast):
    """Return a function that creates an impersonation token for one of the cast, stored as `cast.tokens["support"]`."""

    def create(caller="owner", **body):
        answer = api_as("admin", "POST", f"/api/v1/user/{getattr(cast, caller).id}/impersonate", json=body)
        assert answer.status_code == 200, answer.json
        cast.tokens["support"] = answer.json["data"]["token"]
        return answer.json["data"]

    return create


def seconds_to_expiry(data):
    return (datetime.fromisoformat(data["expires_at"]) - clock.now()).total_seconds()


def test_impersonate_response_contains_token_id_and_expiry(api_as, cast):
    """IDT-54"""
    answer = api_as("admin", "POST", f"/api/v1/user/{cast.owner.id}/impersonate")
    assert answer.json.keys() == {"success", "message", "data"}
    assert answer.json["data"].keys() == {"token", "token_id", "expires_at"}
    assert session.get(Token, answer.json["data"]["token_id"]).kind == "impersonation"


def test_impersonation_token_defaults_are_unrestricted_for_one_hour(api_as, cast, impersonate):
    """IDT-55, IDT-56, IDT-57"""
    cast.instance()
    data = impersonate()
    assert 3590 < seconds_to_expiry(data) <= 3600
    for path in ("/api/instances", "/api/ssh-keys", "/api/images/search", "/api/api-tokens", "/api/tasks"):
        for address in ("127.0.0.1", "198.51.100.7", "2001:db8::9"):
            answer = api_as("support", "GET", path, environ_base={"REMOTE_ADDR": address})
            assert answer.status_code == 200, path
    assert api_as("support", "GET", "/api/instances").json["total"] == 1
    assert (
        api_as("support", "POST", "/api/ssh-key/generate", json={"name": "k", "algorithm": "ed25519"}).status_code
        == 200
    )


def test_impersonation_default_lifetime_follows_settings(impersonate):
    """IDT-57"""
    settings.update({"impersonation_expires_in": 120})
    assert 110 < seconds_to_expiry(impersonate()) <= 120
    assert 110 < seconds_to_expiry(impersonate(expires_in=None, scopes=None, allowed_ips=None)) <= 120


@pytest.mark.parametrize("lifetime", [60, 900, 3600])
def test_impersonation_accepts_lifetime(impersonate, lifetime):
    """IDT-58"""
    assert lifetime - 10 < seconds_to_expiry(impersonate(expires_in=lifetime)) <= lifetime


@pytest.mark.parametrize("lifetime", [59, 3601, 0, -1, "600", 600.5, True, [], 10**18])
def test_impersonation_rejects_lifetime(api_as, cast, lifetime):
    """IDT-59"""
    answer = api_as("admin", "POST", f"/api/v1/user/{cast.owner.id}/impersonate", json={"expires_in": lifetime})
    assert answer.status_code == 422
    assert list(answer.json["errors"]) == ["expires_in"]


def test_impersonation_token_expires(api_as, impersonate, monkeypatch):
    """IDT-53"""
    impersonate(expires_in=60)
    assert api_as("support", "GET", "/api/connect").status_code == 200
    later = clock.now() + timedelta(seconds=60)
    monkeypatch.setattr(clock, "now", lambda: later)
    assert api_as("support", "GET", "/api/connect").status_code == 401


def test_impersonation_token_scopes_are_enforced(api_as, cast, impersonate):
    """IDT-60"""
    path = f"/api/instance/{cast.instance().id}"
    impersonate(scopes=["instances:read"])
    assert api_as("support", "GET", path).status_code == 200
    refused = api_as("support", "PATCH", path, json={"notes": "x"})
    assert (refused.status_code, "scope" in refused.json["message"]) == (403, True)


def test_impersonation_token_addresses_are_enforced(api_as, impersonate):
    """IDT-61"""
    impersonate(allowed_ips=["203.0.113.9"])
    assert api_as("support", "GET", "/api/connect").status_code == 403
    assert api_as("support", "GET", "/api/connect", environ_base={"REMOTE_ADDR": "203.0.113.9"}).status_code == 200


def test_impersonation_rejects_invalid_fields(api_as, cast):
    path = f"/api/v1/user/{cast.owner.id}/impersonate"
    for body in ({"scopes": []}, {"scopes": ["nosuch:read"]}, {"allowed_ips": ["10.0.0.1/8"]}, {"minutes": 5}):
        answer = api_as("admin", "POST", path, json=body)
        assert answer.status_code == 422
        assert next(iter(answer.json["errors"])).startswith(next(iter(body)))
    assert session.scalar(select(Token).where(Token.kind == "impersonation")) is None


def test_unknown_users_cannot_be_impersonated(api_as):
    """IDT-62"""
    answer = api_as("admin", "POST", f"/api/v1/user/{UNKNOWN_ID}/impersonate")
    assert answer.status_code == 404
    assert answer.json == {"success": False, "message": "No such user."}
    assert answer.headers["X-Api-Envelope"] == "v1"


def test_operators_cannot_be_impersonated(api_as, cast):
    answer = api_as("admin", "POST", f"/api/v1/user/{cast.admin.id}/impersonate")
    assert answer.status_code == 403
    assert "Only customers can be impersonated." in answer.json["message"]


def test_only_admin_tokens_can_impersonate(api_as, cast, impersonate):
    """IDT-65"""
    impersonate()
    path = f"/api/v1/user/{cast.outsider.id}/impersonate"
    for caller in ("owner", "member", "billing", "support"):
        answer = api_as(caller, "POST", path)
        assert (answer.status_code, answer.json) == (403, {"success": False, "message": "Unauthorized"})


def test_impersonation_token_is_listed_only_on_request(api_as, cast, impersonate):
    """IDT-34, IDT-37, IDT-38: only for the impersonated customer."""
    token_id = impersonate()["token_id"]
    assert token_id not in api_as("owner", "GET", "/api/api-tokens").text
    rows = api_as("owner", "GET", "/api/api-tokens?include=impersonation").json["data"]
    assert [(row["kind"], row["created_by"]) for row in rows] == [
        ("impersonation", "API token test"),
        ("user", "owner@example.com"),
    ]
    assert rows[0]["id"] == token_id
    for caller in ("member", "viewer", "outsider"):
        assert token_id not in api_as(caller, "GET", "/api/api-tokens?include=impersonation").text
        assert api_as(caller, "GET", f"/api/api-token/{token_id}").status_code == 404


def test_customer_can_revoke_impersonation_token(api_as, impersonate):
    token_id = impersonate()["token_id"]
    assert api_as("owner", "DELETE", f"/api/api-token/{token_id}").status_code == 200
    assert api_as("support", "GET", "/api/connect").status_code == 401


def test_impersonation_token_stops_itself(api_as, impersonate):
    """IDT-63, OP-19: also without the scope that the route requires from other tokens."""
    for body in ({}, {"scopes": ["instances:read"]}):
        impersonate(**body)
        answer = api_as("support", "POST", "/api/profile/impersonation/stop")
        assert (answer.status_code, answer.json["success"]) == (200, True)
        assert api_as("support", "GET", "/api/connect").status_code == 401
        assert api_as("support", "POST", "/api/profile/impersonation/stop").status_code == 401


def test_user_token_cannot_stop_impersonation(api_as):
    """IDT-64"""
    assert api_as("owner", "POST", "/api/profile/impersonation/stop").status_code == 422
    assert api_as("owner", "GET", "/api/connect").status_code == 200


def test_impersonation_token_cannot_manage_tokens(api_as, cast, impersonate):
    """OP-19: other tokens would outlive the impersonation."""
    own = impersonate()["token_id"]
    body = {"name": "x", "scopes": ["account:read"]}
    for method, path in (
        ("POST", "/api/api-tokens"),
        ("PATCH", f"/api/api-token/{own}"),
        ("DELETE", f"/api/api-token/{own}"),
    ):
        answer = api_as("support", method, path, json=body)
        assert answer.status_code == 403
        assert "while acting as another person" in answer.json["message"]
    assert api_as("support", "GET", "/api/connect").status_code == 200


def test_member_impersonation_token_has_member_permissions(api_as, cast, impersonate):
    cast.instance()
    impersonate("viewer")
    assert api_as("support", "GET", "/api/instances").json["total"] == 1
    refused = api_as("support", "POST", "/api/ssh-key/generate", json={"name": "k", "algorithm": "ed25519"})
    assert "Your role in the team does not permit this action" in refused.json["message"]


def test_impersonation_audit_entries_name_operator_and_customer(api_as, cast, impersonate):
    impersonate()
    api_as("support", "POST", "/api/ssh-key/generate", json={"name": "k", "algorithm": "ed25519"})
    started, used = session.scalars(select(AuditEntry).order_by(AuditEntry.id)).all()
    assert (started.action, started.person_kind, started.account_id) == (
        "admin.impersonation.start",
        "admin_token",
        cast.owner.id,
    )
    assert (used.action, used.person, used.impersonator) == (
        "user.ssh_key.generate",
        "owner@example.com",
        "API token test",
    )


def test_old_expired_impersonation_tokens_are_purged(cast):
    for days, kind in ((31, "impersonation"), (29, "impersonation"), (31, "user")):
        end = clock.now() - timedelta(days=days)
        tokens.issue(kind, name=f"{kind} {days}", account=cast.outsider, expires_at=end)
    tokens.purge_expired()
    names = {token.name for token in session.scalars(tokens.select_of_account(cast.outsider))}
    assert names == {"test", "impersonation 29", "user 31"}
