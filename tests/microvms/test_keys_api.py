"""Keys of the sandbox API in the user API: created, listed, revoked."""

import re
from datetime import timedelta

import pytest
from sqlalchemy import select

from panel.core import clock
from panel.core.db import session
from panel.models import AuditEntry, Member, MicrovmApiKey
from panel.services import tokens

KEYS = "/api/microvm/api-keys"


def create_key(api_as, who="owner", name="agents"):
    answer = api_as(who, "POST", KEYS, json={"name": name})
    assert answer.status_code == 200
    return answer.json


def list_keys(api_as, who="owner"):
    return api_as(who, "GET", KEYS).json["data"]


def test_key_value_is_shown_once(api_as):
    """SBX-11: `e2b_` and 160 random bits; only a hash of it is stored."""
    created = create_key(api_as)
    assert re.fullmatch("e2b_[0-9a-f]{40}", created["key"])
    row = session.scalars(select(MicrovmApiKey)).one()
    assert row.secret_hash == tokens.hash_secret(created["key"])
    assert created["key"] not in api_as("owner", "GET", KEYS).text
    assert created["key"][4:] not in str(vars(row))


def test_key_list_shows_prefix_status_and_times(api_as):
    """SBX-12, SBX-14: never used so far."""
    created = create_key(api_as, name=" agents ")
    (row,) = list_keys(api_as)
    assert row == created["api_key"]
    assert row.keys() == {"id", "name", "prefix", "status", "last_used_at", "last_used_ip", "created_at"}
    assert (row["name"], row["prefix"], row["status"]) == ("agents", created["key"][:8], "Active")
    assert (row["last_used_at"], row["last_used_ip"]) == (None, None)


def test_key_list_is_newest_first_and_of_the_account(api_as):
    """SBX-16"""
    for name in ("first", "second"):
        create_key(api_as, name=name)
    assert [row["name"] for row in list_keys(api_as)] == ["second", "first"]
    assert [row["name"] for row in list_keys(api_as, "viewer")] == ["second", "first"]
    assert list_keys(api_as, "outsider") == []


@pytest.mark.parametrize("body", [{}, {"name": ""}, {"name": "a" * 65}, {"name": "a\n"}, {"name": "a", "status": "x"}])
def test_invalid_key_is_refused(api_as, body):
    assert api_as("owner", "POST", KEYS, json=body).status_code == 422
    assert list_keys(api_as) == []


def test_revocation_is_final(api_as):
    """SBX-13, SBX-15: there is no way back."""
    key_id = create_key(api_as)["api_key"]["id"]
    revoked = api_as("owner", "POST", f"/api/microvm/api-key/{key_id}/revoke")
    assert (revoked.status_code, revoked.json["api_key"]["status"]) == (200, "Revoked")
    assert [row["status"] for row in list_keys(api_as)] == ["Revoked"]
    again = api_as("owner", "POST", f"/api/microvm/api-key/{key_id}/revoke")
    assert (again.status_code, again.json["reason"]) == (409, "already_revoked")
    for method in ("PATCH", "PUT", "DELETE"):
        assert api_as("owner", method, f"/api/microvm/api-key/{key_id}", json={"status": "Active"}).status_code == 404


def test_foreign_key_cannot_be_revoked(api_as):
    key_id = create_key(api_as)["api_key"]["id"]
    assert api_as("outsider", "POST", f"/api/microvm/api-key/{key_id}/revoke").status_code == 404
    assert list_keys(api_as)[0]["status"] == "Active"


def test_key_creation_requires_everything_that_a_key_permits(api_as, cast):
    member = session.scalar(select(Member).where(Member.account_id == cast.member.id))
    role, member.reach = member.role, "all"
    role.permissions = ["microvm.view", "microvm.manage"]
    session.commit()
    refused = api_as("member", "POST", KEYS, json={"name": "agents"})
    assert refused.status_code == 403
    assert "microvm.delete" in refused.json["message"]
    role.permissions = [*role.permissions, "microvm.delete"]
    session.commit()
    create_key(api_as, "member")
    assert [row["name"] for row in list_keys(api_as)] == ["agents"]


@pytest.mark.parametrize("limit", [{"allowed_ips": ["127.0.0.1"]}, {"expires_at": clock.now() + timedelta(days=1)}])
def test_limited_token_creates_no_keys(api_as, cast, limit):
    scopes = ["microvm:read", "microvm:write"]
    cast.tokens["limited"] = tokens.issue("user", name="n", account=cast.owner, scopes=scopes, **limit)[1]
    session.commit()
    assert api_as("limited", "POST", KEYS, json={"name": "agents"}).status_code == 422
    assert list_keys(api_as, "limited") == []


def test_impersonation_creates_no_keys(api_as, cast):
    """OP-19"""
    facts = {"name": "support", "account": cast.owner, "scopes": ["microvm:write"], "issued_by": "admin@example.com"}
    cast.tokens["support"] = tokens.issue("impersonation", **facts)[1]
    session.commit()
    assert api_as("support", "POST", KEYS, json={"name": "agents"}).status_code == 403


def test_sandbox_key_is_no_account_token(api_as):
    """MVM-08: not as a bearer token, on no surface."""
    bearer = {"Authorization": f"Bearer {create_key(api_as)['key']}"}
    for path in (KEYS, "/api/connect", "/api/v1/auth", "/api/v1/billing/auth"):
        assert api_as("nobody", "GET", path, headers=bearer).status_code == 401, path


def test_audit_log_names_the_key(api_as):
    created = create_key(api_as)
    api_as("owner", "POST", f"/api/microvm/api-key/{created['api_key']['id']}/revoke")
    entries = session.scalars(select(AuditEntry).where(AuditEntry.object_type == "microvm_api_key")).all()
    assert {entry.action for entry in entries} == {"user.microvm_api_key.create", "user.microvm_api_key.revoke"}
    assert all(created["key"] not in str(vars(entry)) for entry in entries)
