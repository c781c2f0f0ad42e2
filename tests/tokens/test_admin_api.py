"""API tokens in the admin API."""

from datetime import timedelta

import pytest
from sqlalchemy import select

from panel.auth import permissions
from panel.core import clock
from panel.core.db import session
from panel.models import AuditEntry, Token
from panel.services import tokens


def get_token(cast, caller):
    return session.scalar(select(Token).where(Token.secret_hash == tokens.hash_secret(cast.tokens[caller])))


@pytest.fixture
def bound_token(cast):
    token, cast.tokens["bound"] = tokens.issue(
        "admin", name="deployment", description="Terraform of the team", allowed_ips=["203.0.113.7"]
    )
    session.commit()
    return token


def test_platform_token_list_shows_name_and_description(api_as, cast, bound_token):
    """IDT-08, IDT-10: the list does not contain token values."""
    answer = api_as("admin", "GET", "/api/v1/api-tokens")
    assert [row["kind"] for row in answer.json["data"]] == ["admin", "billing", "admin"]
    assert answer.json["meta"]["total"] == 3
    row = answer.json["data"][0]
    assert (row["id"], row["name"], row["description"]) == (bound_token.id, "deployment", "Terraform of the team")
    assert (row["allowed_ips"], row["enabled"]) == (["203.0.113.7"], True)
    assert not [value for value in cast.tokens.values() if value in answer.text]
    rows = api_as("admin", "GET", "/api/v1/api-tokens?kind=billing").json["data"]
    assert [row["kind"] for row in rows] == ["billing"]
    assert api_as("admin", "GET", "/api/v1/api-tokens?kind=user").status_code == 422


def test_platform_tokens_work_only_from_allowed_ips(api_as, cast, bound_token):
    """IDT-11, IDT-12"""
    get_token(cast, "billing").allowed_ips = ["203.0.113.7"]
    session.commit()
    for caller, path in (("bound", "/api/v1/auth"), ("billing", "/api/v1/billing/auth")):
        status = lambda ip: api_as(caller, "GET", path, environ_base={"REMOTE_ADDR": ip}).status_code  # noqa: B023, E731
        assert [status(ip) for ip in ("203.0.113.7", "203.0.113.8", "127.0.0.1", "::1")] == [200, 403, 403, 403]


def test_token_is_disabled_and_enabled(api_as, cast):
    path = f"/api/v1/api-token/{get_token(cast, 'billing').id}"
    get_status = lambda: api_as("billing", "GET", "/api/v1/billing/auth").status_code  # noqa: E731
    assert api_as("admin", "PATCH", path, json={"enabled": False}).json["message"] == "API token disabled."
    assert get_status() == 401
    assert api_as("admin", "PATCH", path, json={"enabled": True}).json["message"] == "API token enabled."
    assert get_status() == 200
    for body in ({}, {"enabled": None}, {"enabled": "no"}, {"enabled": True, "name": "x"}):
        assert api_as("admin", "PATCH", path, json=body).status_code == 422


def test_token_revocation_is_audited(api_as, cast):
    path = f"/api/v1/api-token/{get_token(cast, 'billing').id}"
    assert api_as("admin", "DELETE", path).status_code == 200
    assert api_as("billing", "GET", "/api/v1/billing/auth").status_code == 401
    assert api_as("admin", "DELETE", path).status_code == 404
    entry = session.scalar(select(AuditEntry).where(AuditEntry.action == "admin.token.delete"))
    assert (entry.object_type, entry.object_name) == ("token", "test")


def test_user_token_list_includes_impersonation_and_created_tokens(api_as, cast):
    tokens.issue("impersonation", name="support", account=cast.member, issued_by="API token test")
    tokens.issue(
        "user", name="of old times", account=cast.owner, created_by=cast.member, scopes=permissions.USER_SCOPES
    )
    session.commit()
    answer = api_as("admin", "GET", f"/api/v1/user/{cast.member.id}/api-tokens")
    shown = [(row["name"], row["account_id"], row["created_by"]) for row in answer.json["data"]]
    assert shown == [
        ("of old times", cast.owner.id, "member@example.com"),
        ("support", cast.member.id, "API token test"),
        ("test", cast.member.id, "member@example.com"),
    ]
    assert api_as("admin", "GET", "/api/v1/user/nobody/api-tokens").status_code == 404


def test_operator_disables_customer_token(api_as, cast):
    get_token(cast, "owner").expires_at = clock.now() + timedelta(days=99)
    session.commit()
    path = f"/api/v1/api-token/{get_token(cast, 'owner').id}"
    assert api_as("admin", "PATCH", path, json={"enabled": False}).status_code == 200
    assert api_as("owner", "GET", "/api/connect").status_code == 401
