"""API tokens and impersonation on the admin pages."""

from datetime import timedelta

import pytest
from sqlalchemy import select

from panel.auth import permissions
from panel.core import clock
from panel.core.db import session
from panel.models import AuditEntry, LoginSession, Token
from panel.services import accounts, sessions, settings, tokens
from tests.support.cast import PASSWORD
from tests.support.html_pages import HtmlOutline

IMPERSONATION_BANNER_TEXT = "You are acting as"


def find_newest_audit_entry():
    return session.scalars(select(AuditEntry).order_by(AuditEntry.id.desc())).first()


def test_platform_token_page_disables_and_revokes(browser_as, api_as, cast):
    """IDT-08, IDT-10: the page lists, disables, enables and revokes. Only a server command creates platform tokens."""
    token, value = tokens.issue("billing", name="<shop>", description="WHMCS", allowed_ips=["203.0.113.7"])
    cast.tokens["made"] = value
    session.commit()
    browser = browser_as("admin")
    page = browser.get("/admin/tokens")
    for text in ("&lt;shop&gt;", "WHMCS", "203.0.113.7", "panel token admin", token.prefix):
        assert text in page.text
    assert value not in page.text
    assert HtmlOutline(page.text).open == []
    assert "WHMCS" not in browser.get("/admin/tokens?kind=admin").text
    for action in ("off", "on", "off"):
        assert browser.post(f"/admin/tokens/{token.id}/{action}").headers["Location"] == "/admin/tokens"
        assert session.get(Token, token.id).enabled is (action == "on")
    assert browser.post(f"/admin/tokens/{token.id}/revoke").status_code == 303
    assert session.get(Token, token.id) is None
    assert find_newest_audit_entry().action == "admin_tokens.revoke"
    assert browser.post(f"/admin/tokens/{token.id}/revoke").status_code == 404


def test_customer_token_page_revokes_token(browser_as, api_as, cast):
    browser = browser_as("admin")
    page = browser.get(f"/admin/customers/{cast.owner.id}/tokens")
    assert "Everything" in page.text
    assert HtmlOutline(page.text).open == []
    (token,) = session.scalars(tokens.select_of_account(cast.owner))
    answer = browser.post(f"/admin/tokens/{token.id}/revoke")
    assert answer.headers["Location"] == f"/admin/customers/{cast.owner.id}/tokens"
    assert api_as("owner", "GET", "/api/connect").status_code == 401
    assert "This customer has no API tokens." in browser.get(f"/admin/customers/{cast.owner.id}/tokens").text


def test_impersonation_shows_customer_pages_and_returns(browser_as, cast):
    cast.instance(display_name="shop front")
    browser = browser_as("admin")
    assert browser.post(f"/admin/customers/{cast.owner.id}/impersonate").headers["Location"] == "/"
    for path in ("/", "/instances", "/profile", "/api-tokens"):
        page = browser.get(path)
        assert IMPERSONATION_BANNER_TEXT in page.text
        assert "owner@example.com" in page.text
    assert "shop front" in browser.get("/instances").text
    assert browser.get("/admin").status_code == 403
    answer = browser.post("/impersonation/stop")
    assert answer.headers["Location"] == f"/admin/customers/{cast.owner.id}"
    back = browser.get(answer.headers["Location"])
    assert (back.status_code, IMPERSONATION_BANNER_TEXT in back.text) == (200, False)
    assert session.scalar(select(LoginSession).where(LoginSession.impersonator_id.is_not(None))) is None


def test_member_impersonation_has_member_permissions(browser_as, cast):
    cast.instance(display_name="shop front")
    browser = browser_as("admin")
    browser.post(f"/admin/customers/{cast.viewer.id}/impersonate")
    assert "shop front" in browser.get("/instances").text
    assert browser.get("/instances/new").status_code == 403


def test_impersonation_cannot_change_customer_credentials(browser_as, cast):
    """Password, second factor, sessions and tokens would outlive the impersonation."""
    (token,) = session.scalars(tokens.select_of_account(cast.owner))
    browser = browser_as("admin")
    browser.post(f"/admin/customers/{cast.owner.id}/impersonate")
    for path in (
        "/profile/password",
        "/profile/two-factor/begin",
        "/profile/passkeys/options",
        "/profile/sessions/end-others",
        "/api-tokens/new",
        f"/api-tokens/{token.id}",
        f"/api-tokens/{token.id}/revoke",
    ):
        answer = browser.post(path, data={"name": "x", "scopes": "account:read"})
        assert answer.status_code == 403, path
    assert browser.get("/api-tokens/new").status_code == 403
    assert session.scalars(tokens.select_of_account(cast.owner)).all() == [token]


def test_impersonation_audit_entries_name_operator_and_customer(browser_as, cast):
    browser = browser_as("admin")
    browser.post(f"/admin/customers/{cast.owner.id}/impersonate")
    entry = find_newest_audit_entry()
    assert (entry.action, entry.person, entry.person_kind) == (
        "admin_impersonations.start",
        "admin@example.com",
        "operator",
    )
    assert entry.account_id == cast.owner.id
    browser.post("/profile", data={"timezone": "Asia/Tokyo"})
    entry = find_newest_audit_entry()
    assert (entry.action, entry.person, entry.impersonator) == (
        "profile.update",
        "owner@example.com",
        "admin@example.com",
    )
    browser.post("/impersonation/stop")
    entry = find_newest_audit_entry()
    assert (entry.action, entry.person, entry.impersonator) == (
        "impersonation.stop",
        "owner@example.com",
        "admin@example.com",
    )
    assert entry.account_id == cast.owner.id


@pytest.mark.parametrize(("role", "opened"), [("read_only", False), ("support", True), ("full", True)])
def test_impersonation_requires_operator_role(browser_as, cast, role, opened):
    cast.admin.operator_role = role
    session.commit()
    browser = browser_as("admin")
    page = browser.get(f"/admin/customers/{cast.owner.id}")
    assert (f'action="/admin/customers/{cast.owner.id}/impersonate"' in page.text) is opened
    answer = browser.post(f"/admin/customers/{cast.owner.id}/impersonate")
    assert answer.status_code == (303 if opened else 403)


def test_operators_cannot_be_impersonated(browser_as, cast):
    other = accounts.create(email="other@example.com", password=PASSWORD, operator_role="read_only")
    session.commit()
    browser = browser_as("admin")
    assert "/impersonate" not in browser.get(f"/admin/customers/{other.id}").text
    for operator in (other, cast.admin):
        assert browser.post(f"/admin/customers/{operator.id}/impersonate").status_code == 403
    assert IMPERSONATION_BANNER_TEXT not in browser.get("/").text


@pytest.fixture
def is_impersonating(browser_as, cast):
    """Start an impersonation. Return a function that checks whether it still works."""
    browser = browser_as("admin")
    browser.post(f"/admin/customers/{cast.owner.id}/impersonate")
    assert IMPERSONATION_BANNER_TEXT in browser.get("/instances").text
    return lambda: browser.get("/instances").status_code == 200


@pytest.mark.parametrize("change", ["operator_role", "suspended_at"])
def test_page_impersonation_ends_when_operator_loses_permission(cast, is_impersonating, change):
    setattr(cast.admin, change, {"operator_role": "read_only", "suspended_at": clock.now()}[change])
    session.commit()
    assert not is_impersonating()


def test_page_impersonation_ends_when_customer_becomes_operator(cast, is_impersonating):
    """An impersonation that is already running must not gain operator permissions."""
    cast.owner.operator_role = "full"
    session.commit()
    assert not is_impersonating()


def test_page_impersonation_ends_when_operator_sessions_are_revoked(cast, is_impersonating):
    sessions.revoke_others(cast.admin)
    session.commit()
    assert not is_impersonating()


def test_page_impersonation_expires(is_impersonating, monkeypatch):
    later = clock.now() + timedelta(seconds=settings.get().impersonation_expires_in)
    monkeypatch.setattr(clock, "now", lambda: later)
    assert not is_impersonating()


def test_impersonation_is_hidden_from_customer_sessions(browser_as, cast, is_impersonating):
    assert "127.0.0.1" in browser_as("owner").get("/profile/security").text
    assert (
        session.scalars(sessions.listing(cast.owner)).all()
        == session.scalars(
            select(LoginSession).where(LoginSession.account_id == cast.owner.id, LoginSession.impersonator_id.is_(None))
        ).all()[::-1]
    )


def test_sign_out_ends_impersonation(browser_as, cast):
    browser = browser_as("admin")
    browser.post(f"/admin/customers/{cast.owner.id}/impersonate")
    browser.post("/sign-out")
    assert browser.get("/").headers["Location"].startswith("/sign-in")
    remaining = select(LoginSession).where(LoginSession.account_id.in_((cast.admin.id, cast.owner.id)))
    assert session.scalars(remaining).all() == []


def test_stop_without_impersonation_has_no_effect(browser_as):
    browser = browser_as("owner")
    assert browser.post("/impersonation/stop").headers["Location"] == "/"
    assert "You are" in browser.get("/").text


def test_read_only_operator_cannot_change_platform_tokens(browser_as, cast):
    cast.admin.operator_role = "read_only"
    token = session.scalars(tokens.select_platform()).first()
    session.commit()
    browser = browser_as("admin")
    assert "admin:tokens:write" in browser.get("/admin/tokens").text
    for action in ("off", "on", "revoke"):
        assert browser.post(f"/admin/tokens/{token.id}/{action}").status_code == 403
    assert permissions.has_operator_permission("read_only", "admin:tokens:read")
