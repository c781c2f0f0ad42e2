"""API tokens in the user API."""

from datetime import timedelta

import pytest
from sqlalchemy import select

from panel.auth import permissions
from panel.core import clock
from panel.core.db import session
from panel.models import AuditEntry, Token
from panel.schemas.constants import SCOPE_FAMILIES
from panel.services import tokens

SPECIFIED_SCOPE_FAMILIES = [
    "instances",
    "vpcs",
    "load_balancers",
    "databases",
    "s3_buckets",
    "ssh_keys",
    "kubernetes",
    "images",
    "certificates",
    "microvm",
    "webhooks",
]


def list_names(answer):
    return [row["name"] for row in answer.json["data"]]


def format_time(moment):
    return moment.isoformat()


def test_connect_confirms_user_token(api_as):
    """IDT-01"""
    answer = api_as("owner", "GET", "/api/connect")
    assert (answer.status_code, answer.json["success"]) == (200, True)


def test_auth_confirms_platform_tokens(api_as, cast):
    """IDT-03, IDT-04: from the IP address that they are bound to."""
    for caller, path in (("admin", "/api/v1/auth"), ("billing", "/api/v1/billing/auth")):
        hashed = tokens.hash_secret(cast.tokens[caller])
        session.scalar(select(Token).where(Token.secret_hash == hashed)).allowed_ips = ["127.0.0.1"]
        session.commit()
        answer = api_as(caller, "GET", path)
        assert (answer.status_code, answer.json["success"]) == (200, True)
        assert answer.headers["X-Api-Envelope"] == "v1"


def test_token_record_never_contains_value(api_as, cast, create_token):
    """IDT-33"""
    row = create_token(
        scopes=["instances:read"], allowed_ips=["203.0.113.7"], expires_at=format_time(clock.now() + timedelta(days=1))
    )
    shown = api_as("owner", "GET", "/api/api-tokens")
    assert shown.json["total"] == 2
    assert shown.json["data"][0] == row == api_as("owner", "GET", f"/api/api-token/{row['id']}").json["api_token"]
    assert {"scopes", "allowed_ips", "expires_at", "kind", "last_used_at"} < row.keys()
    assert (row["kind"], row["created_by"], row["last_used_at"]) == ("user", "owner@example.com", None)
    assert cast.tokens["made"] not in shown.text
    assert cast.tokens["made"].startswith(row["prefix"])


def test_token_scopes_limit_operations(api_as, cast, create_token):
    """IDT-17, IDT-18, IDT-19, IDT-20"""
    path = f"/api/instance/{cast.instance().id}"
    create_token(name="reads", scopes=["instances:read"])
    assert api_as("reads", "GET", path).status_code == 200
    assert api_as("reads", "PATCH", path, json={"notes": "x"}).status_code == 403
    refused = api_as("reads", "GET", "/api/ssh-keys")
    assert (refused.status_code, refused.json["success"]) == (403, False)
    assert "The token's scope does not permit this action" in refused.json["message"]
    create_token(name="writes", scopes=["instances:write"])
    assert api_as("writes", "PATCH", path, json={"notes": "x"}).status_code == 200
    assert api_as("writes", "GET", path).status_code == 403


@pytest.mark.parametrize(
    "wrong", ["instances", "instances:admin", "nosuch:read", "INSTANCES:read", "instances:read ", "", "*", 3, None]
)
def test_malformed_scope_is_rejected(api_as, wrong):
    """IDT-16"""
    answer = api_as("owner", "POST", "/api/api-tokens", json={"name": "x", "scopes": ["account:read", wrong]})
    assert answer.status_code == 422
    assert "scopes.1" in answer.json["errors"]


def test_every_scope_family_can_be_granted(api_as, create_token):
    """IDT-21, IDT-22"""
    rows = api_as("owner", "GET", "/api/api-token-scopes").json["data"]
    assert len(rows) == len(SCOPE_FAMILIES)
    assert {*SPECIFIED_SCOPE_FAMILIES, "metrics", "account"} <= {row["family"] for row in rows}
    for row in rows:
        assert create_token(name=row["family"], scopes=row["scopes"])["scopes"] == row["scopes"]
        assert api_as(row["family"], "GET", "/api/connect").status_code == 200


def test_scopes_are_required_and_deduplicated(api_as, create_token):
    assert create_token(scopes=["metrics:read", "account:write", "metrics:read"])["scopes"] == [
        "metrics:read",
        "account:write",
    ]
    for body in ({}, {"scopes": []}, {"scopes": None}, {"scopes": "instances:read"}):
        answer = api_as("owner", "POST", "/api/api-tokens", json={"name": "x", **body})
        assert answer.status_code == 422
        assert "scopes" in answer.json["errors"]


def test_token_management_requires_account_scopes(api_as, issue_token):
    """IDT-27, IDT-28, IDT-29, IDT-30: profile, tokens, dashboard and team require account:read or account:write."""
    row = issue_token(name="target")
    issue_token(name="reader", scopes=["account:read"])
    issue_token(name="writer", scopes=["account:write"])
    issue_token(name="other", scopes=["instances:read", "instances:write"])
    for path in ("/api/api-tokens", f"/api/api-token/{row.id}", "/api/dashboard", "/api/team/subusers", "/api/profile"):
        assert [api_as(caller, "GET", path).status_code for caller in ("reader", "writer", "other")] == [
            200,
            403,
            403,
        ], path
    body = {"name": "x", "scopes": ["account:write"]}
    make = lambda caller: api_as(caller, "POST", "/api/api-tokens", json=body).status_code  # noqa: E731
    assert [make(caller) for caller in ("reader", "writer", "other")] == [403, 200, 403]
    change = lambda caller: api_as(caller, "PATCH", f"/api/api-token/{row.id}", json={"name": "y"}).status_code  # noqa: E731
    assert [change(caller) for caller in ("reader", "writer", "other")] == [403, 200, 403]
    stop = lambda caller: api_as(caller, "POST", "/api/profile/impersonation/stop").status_code  # noqa: E731
    assert [stop(caller) for caller in ("reader", "writer", "other")] == [403, 422, 403]
    invite = lambda caller: api_as(caller, "POST", "/api/team/roles", json={}).status_code  # noqa: E731
    assert [invite(caller) for caller in ("reader", "writer", "other")] == [403, 422, 403]


def test_webhooks_and_metrics_have_separate_scope_families():
    """IDT-31, IDT-32: the path decides the family."""
    assert permissions.find_required_scope("/api/webhook-subscriptions", "GET") == "webhooks:read"
    assert permissions.find_required_scope("/api/webhook-subscriptions", "POST") == "webhooks:write"
    assert permissions.find_required_scope("/api/webhook-subscription/{id}/deliveries", "GET") == "webhooks:read"
    assert permissions.find_required_scope("/api/metrics", "GET") == "metrics:read"
    assert permissions.find_required_scope("/api/metrics/instance/{id}", "GET") == "metrics:read"


def test_allowed_ips_are_normalized_and_enforced(api_as, create_token):
    """IDT-14, IDT-15"""
    sent = ["203.0.113.7", "10.0.0.0/8", "2001:DB8:0:0::1", "2001:db8::/32", "0.0.0.0/0"]
    normalized = ["203.0.113.7", "10.0.0.0/8", "2001:db8::1", "2001:db8::/32", "0.0.0.0/0"]
    assert create_token(name="many", allowed_ips=sent)["allowed_ips"] == normalized
    assert api_as("many", "GET", "/api/connect").status_code == 200
    create_token(name="elsewhere", allowed_ips=sent[:4])
    refused = api_as("elsewhere", "GET", "/api/connect")
    assert (refused.status_code, refused.json["message"]) == (403, "The token may not be used from this address.")
    for body in ({}, {"allowed_ips": []}):
        create_token(name="unrestricted", **body)
        for ip in ("127.0.0.1", "198.51.100.7", "2001:db8::7"):
            environ = {"REMOTE_ADDR": ip}
            assert api_as("unrestricted", "GET", "/api/connect", environ_base=environ).status_code == 200
    assert api_as("many", "GET", "/api/connect", environ_base={"REMOTE_ADDR": "::ffff:203.0.113.7"}).status_code == 200


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ("10.0.0.1/24", "10.0.0.1/24 is a host in the network 10.0.0.0/24. Enter the host or the network."),
        (
            "2001:db8::1/32",
            "2001:db8::1/32 is a host in the network 2001:db8::/32. Enter the host or the network.",
        ),
        ("256.0.0.1", "'256.0.0.1' is neither an IP address nor a network in CIDR notation."),
        ("10.0.0.0/33", "'10.0.0.0/33' is neither an IP address nor a network in CIDR notation."),
        ("example.com", "'example.com' is neither an IP address nor a network in CIDR notation."),
        ("", "'' is neither an IP address nor a network in CIDR notation."),
        ("fe80::1%eth0", "Use plain IPv4 notation for IPv4 addresses, and no zone for IPv6 addresses."),
        ("::ffff:10.0.0.1", "Use plain IPv4 notation for IPv4 addresses, and no zone for IPv6 addresses."),
        (7, "Not a valid string."),
    ],
)
def test_invalid_allowed_ip_is_rejected(api_as, wrong, sentence):
    body = {"name": "x", "scopes": ["account:read"], "allowed_ips": ["10.0.0.1", wrong]}
    answer = api_as("owner", "POST", "/api/api-tokens", json=body)
    assert answer.status_code == 422
    assert answer.json["errors"] == {"allowed_ips.1": [sentence]}


def test_token_update_renames_and_narrows_scopes(api_as, issue_token):
    path = f"/api/api-token/{issue_token(name='wide', scopes=['instances:read', 'instances:write']).id}"
    change = {"name": "narrow", "scopes": ["instances:read"], "allowed_ips": ["127.0.0.1"]}
    answer = api_as("owner", "PATCH", path, json=change)
    assert {name: answer.json["api_token"][name] for name in change} == change
    assert api_as("wide", "GET", "/api/instances").status_code == 200
    wider = api_as("owner", "PATCH", path, json={"scopes": ["instances:read", "instances:write", "vpcs:read"]})
    assert wider.status_code == 422
    assert "instances:write, vpcs:read" in wider.json["errors"]["scopes"][0]
    for field, value in (("kind", "admin"), ("last_used_at", None), ("account_id", "x")):
        refused = api_as("owner", "PATCH", path, json={field: value})
        assert refused.status_code == 422
        assert "Writable: name, scopes, allowed_ips, expires_at." in refused.json["errors"][field][0]


def test_revoked_token_is_rejected_immediately(api_as, create_token):
    row = create_token()
    assert api_as("made", "GET", "/api/connect").status_code == 200
    assert api_as("outsider", "DELETE", f"/api/api-token/{row['id']}").status_code == 404
    assert api_as("owner", "DELETE", f"/api/api-token/{row['id']}").json["success"] is True
    assert api_as("made", "GET", "/api/connect").status_code == 401
    assert api_as("owner", "GET", f"/api/api-token/{row['id']}").status_code == 404
    entry = session.scalar(select(AuditEntry).where(AuditEntry.action == "user.token.delete"))
    assert (entry.object_name, entry.person) == ("made", "owner@example.com")


def test_token_can_revoke_itself(api_as, create_token):
    row = create_token(scopes=["account:write"])
    assert api_as("made", "DELETE", f"/api/api-token/{row['id']}").status_code == 200
    assert api_as("made", "GET", "/api/connect").status_code == 401


def test_token_cannot_grant_scopes_it_lacks(api_as, cast, create_token):
    create_token(name="narrow", scopes=["account:write", "instances:read"])
    wide = api_as("narrow", "POST", "/api/api-tokens", json={"name": "x", "scopes": ["instances:read", "vpcs:read"]})
    assert wide.status_code == 422
    assert wide.json["errors"]["scopes"] == [
        "A token can only grant scopes that it has. This one does not have vpcs:read."
    ]
    assert create_token("narrow", "given", scopes=["instances:read"])["scopes"] == ["instances:read"]


def test_token_cannot_grant_wider_allowed_ips(api_as, cast, create_token):
    bound = create_token(name="bound", scopes=["account:write"], allowed_ips=["127.0.0.0/24", "2001:db8::/32"])
    assert create_token("bound", "given", scopes=["account:write"])["allowed_ips"] == ["127.0.0.0/24", "2001:db8::/32"]
    inside = ["127.0.0.7", "2001:db8:1::/48"]
    assert create_token("bound", "given", scopes=["account:write"], allowed_ips=inside)["allowed_ips"] == inside
    for outside in ("127.0.0.0/8", "10.0.0.1", "::/0"):
        body = {"name": "x", "scopes": ["account:write"], "allowed_ips": [outside]}
        assert "allowed_ips" in api_as("bound", "POST", "/api/api-tokens", json=body).json["errors"]
    for wider in (["127.0.0.1", "10.0.0.1"], []):
        answer = api_as("bound", "PATCH", f"/api/api-token/{bound['id']}", json={"allowed_ips": wider})
        assert answer.status_code == 422
        assert list(answer.json["errors"]) == ["allowed_ips"]
    assert api_as("owner", "PATCH", f"/api/api-token/{bound['id']}", json={"allowed_ips": []}).status_code == 200


def test_token_cannot_grant_later_expiry(api_as, create_token):
    end = clock.now() + timedelta(hours=1)
    parent = create_token(name="short", scopes=["account:write"], expires_at=format_time(end))
    assert create_token("short", "given", scopes=["account:write"])["expires_at"] == parent["expires_at"]
    body = {"name": "x", "scopes": ["account:write"], "expires_at": format_time(end + timedelta(seconds=1))}
    assert "expires_at" in api_as("short", "POST", "/api/api-tokens", json=body).json["errors"]
    sooner = create_token(
        "short", "given", scopes=["account:write"], expires_at=format_time(end - timedelta(minutes=1))
    )
    assert sooner["expires_at"] < parent["expires_at"]


def test_members_and_owner_see_only_own_tokens(api_as, cast, create_token, issue_token):
    """IDT-39, IDT-40"""
    create_token("member", "of the member")
    create_token("owner", "of the owner")
    assert list_names(api_as("member", "GET", "/api/api-tokens")) == ["of the member", "test"]
    assert list_names(api_as("owner", "GET", "/api/api-tokens")) == ["of the owner", "test"]
    for caller, other in (("owner", "of the member"), ("member", "of the owner")):
        row = session.scalar(select(Token).where(Token.name == other))
        for method in ("GET", "PATCH", "DELETE"):
            assert api_as(caller, method, f"/api/api-token/{row.id}").status_code == 404


def test_owner_sees_member_tokens_created_before_3_3_0(api_as, cast, issue_token):
    """IDT-41: such a token acts as the owner. Its creator sees it too."""
    cast.instance()
    token = issue_token("owner", "of old times", maker=cast.member)
    assert api_as("of old times", "GET", "/api/instances").json["total"] == 1
    for caller in ("owner", "member"):
        row = api_as(caller, "GET", f"/api/api-token/{token.id}").json["api_token"]
        assert (row["name"], row["created_by"]) == ("of old times", "member@example.com")
        assert "of old times" in list_names(api_as(caller, "GET", "/api/api-tokens"))
    assert api_as("viewer", "GET", f"/api/api-token/{token.id}").status_code == 404
    assert api_as("owner", "DELETE", f"/api/api-token/{token.id}").status_code == 200
    assert api_as("of old times", "GET", "/api/connect").status_code == 401


def test_member_token_has_member_access(api_as, cast, create_token):
    """IDT-42, IDT-44, IDT-45: the same access on list and item routes."""
    hidden = cast.instance()
    create_token("member", "of the member", scopes=["instances:read", "instances:write", "account:read"])
    assert api_as("of the member", "GET", "/api/instances").json["total"] == 0
    assert api_as("of the member", "GET", f"/api/instance/{hidden.id}").status_code == 404
    assert api_as("owner", "GET", f"/api/instance/{hidden.id}").status_code == 200
    body = {"location_id": cast.location.id, "plan_id": cast.plan.id}
    instance_id = api_as("of the member", "POST", "/api/cloud-service/instances", json=body).json["instance"]["id"]
    assert [row["id"] for row in api_as("of the member", "GET", "/api/instances").json["data"]] == [instance_id]
    assert api_as("owner", "GET", "/api/instances").json["total"] == 2


def test_member_without_permission_cannot_create_tokens(api_as):
    """IDT-43"""
    answer = api_as("viewer", "POST", "/api/api-tokens", json={"name": "x", "scopes": ["account:read"]})
    assert answer.status_code == 403
    assert "it needs api_tokens.manage" in answer.json["message"]


def test_token_list_is_paginated_with_constant_queries(api_as, cast, issue_token, queries):
    for number in range(4):
        issue_token(name=f"number {number}")
    answer = api_as("owner", "GET", "/api/api-tokens?per_page=2&page=2")
    assert (list_names(answer), answer.json["total"], answer.json["last_page"]) == (["number 1", "number 0"], 5, 3)
    assert api_as("owner", "GET", "/api/api-tokens?include=everything").status_code == 422
    counts = []
    for per_page in (1, 5):
        queries.clear()
        api_as("owner", "GET", f"/api/api-tokens?per_page={per_page}")
        counts.append(sum(statement.startswith("SELECT") for statement in queries))
    assert counts[0] == counts[1] <= 2


def test_suspended_user_can_revoke_tokens(api_as, cast, create_token):
    row = create_token()
    cast.owner.suspended_at = clock.now()
    session.commit()
    refused = api_as("owner", "POST", "/api/api-tokens", json={"name": "x", "scopes": ["account:read"]})
    assert refused.json["reason"] == "account_suspended"
    assert api_as("owner", "DELETE", f"/api/api-token/{row['id']}").status_code == 200
