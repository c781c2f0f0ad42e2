"""A session is not redeemed after its access was revoked, and the node is not contacted."""

import ipaddress

import pytest
from sqlalchemy import select

from panel.core import clock
from panel.core.db import session
from panel.core.errors import Forbidden
from panel.models import Account, ConsoleSession, Instance, Member, Role, Token
from panel.services import consoles, instances, team
from panel.services.tokens import hash_secret
from tests.instances.consoles.sessions import get_created_session, list_console_sessions

CLIENT_ADDRESS = ipaddress.ip_address("192.0.2.7")
CONSOLE_PERMISSION = "instances.console"


@pytest.fixture
def create_session(api_as, running_instance, inline_workers):
    """Create a session and return its row's id and its secret."""

    def make(kind="screen", caller="owner"):
        path = {"screen": "novnc", "shell": "ssh" if caller == "admin" else "webssh"}[kind]
        prefix = "/api/v1" if caller == "admin" else "/api"
        console_session = get_created_session(
            api_as(caller, "GET", f"{prefix}/instance/{running_instance.id}/{path}"), caller
        )
        secret = console_session["url"].partition("session=")[2] if kind == "screen" else console_session["token"]
        return list_console_sessions()[-1].id, secret

    return make


def redeem_secret(kind, secret):
    """Return the message of the refusal, or None when the session opens."""
    session.expire_all()
    try:
        consoles.redeem(kind, secret, CLIENT_ADDRESS, lambda role: role in ("full", "support"))
    except Forbidden as refused:
        session.rollback()
        return refused.message
    session.rollback()
    return None


def revoke_token(row, running_instance):
    session.delete(session.get(Token, row.opened_by["token_id"]))


def suspend_instance(row, running_instance):
    session.get(Instance, running_instance.id).suspended_reason = "admin"


def disable_vnc(row, running_instance):
    session.get(Instance, running_instance.id).enable_vnc = False


def power_off_machine(row, running_instance):
    session.get(Instance, running_instance.id).power = "off"


def suspend_account(row, running_instance):
    session.get(Account, running_instance.account_id).suspended_at = clock.now()


def destroy_instance(row, running_instance):
    instances.destroy(session.get(Instance, running_instance.id), actor="owner@example.com")


@pytest.mark.parametrize("kind", ["screen", "shell"])
@pytest.mark.parametrize(
    ("revoke_access", "message"),
    [
        (revoke_token, "The token that opened this console is no longer valid."),
        (suspend_instance, "The instance was suspended."),
        (suspend_account, "You may no longer open consoles of this instance."),
        (destroy_instance, "The machine is being destroyed or reinstalled."),
    ],
)
def test_redeem_after_revoked_access_is_refused(create_session, running_instance, kind, revoke_access, message):
    session_id, secret = create_session(kind)
    assert redeem_secret(kind, secret) is None
    revoke_access(session.get(ConsoleSession, session_id), running_instance)
    session.commit()
    assert redeem_secret(kind, secret) == message
    assert session.get(ConsoleSession, session_id).redeemed_at is None


@pytest.mark.parametrize("revoke_access", [revoke_token, suspend_instance, suspend_account, disable_vnc])
def test_console_page_after_revoked_access_is_404(create_session, browser_as, running_instance, revoke_access):
    """The page shows neither the instance's name nor the VNC password."""
    session_id, secret = create_session()
    password, name = session.get(ConsoleSession, session_id).password, running_instance.display_name
    path = f"/console/{secret}"
    assert password in browser_as().get(path).text
    revoke_access(session.get(ConsoleSession, session_id), running_instance)
    session.commit()
    page = browser_as().get(path)
    assert page.status_code == 404
    assert "This console cannot be reopened" in page.text
    assert password not in page.text
    assert name not in page.text


@pytest.mark.parametrize(
    ("kind", "revoke_access", "message"),
    [
        ("screen", disable_vnc, "The console of this instance was turned off."),
        ("shell", power_off_machine, "The instance was powered off."),
    ],
)
def test_redeem_after_console_becomes_unavailable_is_refused(
    create_session, running_instance, kind, revoke_access, message
):
    session_id, secret = create_session(kind)
    revoke_access(session.get(ConsoleSession, session_id), running_instance)
    session.commit()
    assert redeem_secret(kind, secret) == message


def test_operator_session_is_redeemed_on_suspended_instance(create_session, running_instance):
    """The same rule as for an open console."""
    _, secret = create_session(caller="admin")
    suspend_instance(None, running_instance)
    session.commit()
    assert redeem_secret("screen", secret) is None


@pytest.fixture
def create_session_on_page(browser_as, running_instance):
    """Create a VNC session on a page; return the browser and the row's id, whose secret is set to `known`."""

    def make(caller, prefix=""):
        browser = browser_as(caller)
        browser.post(f"{prefix}/instances/{running_instance.id}/console")
        row = list_console_sessions()[-1]
        row.secret_hash = hash_secret("known")
        session.commit()
        return browser, row.id

    return make


def test_redeem_after_sign_out_is_refused(create_session_on_page):
    browser, _ = create_session_on_page("owner")
    assert redeem_secret("screen", "known") is None
    browser.post("/sign-out")
    assert redeem_secret("screen", "known") == "You signed out."


def test_redeem_after_lost_member_permission_is_refused(create_session_on_page, cast):
    """By a changed role."""
    role = session.scalar(select(Role).where(Role.name == "Viewer"))
    permissions, role.permissions = role.permissions, [*role.permissions, CONSOLE_PERMISSION]
    session.commit()
    create_session_on_page("viewer")
    assert redeem_secret("screen", "known") is None
    session.scalar(select(Role).where(Role.name == "Viewer")).permissions = permissions
    session.commit()
    assert redeem_secret("screen", "known") == "You may no longer open consoles of this instance."


def test_redeem_after_member_removal_is_refused(create_session_on_page, cast):
    role = session.scalar(select(Role).where(Role.name == "Viewer"))
    role.permissions = [*role.permissions, CONSOLE_PERMISSION]
    session.commit()
    create_session_on_page("viewer")
    team.remove(session.scalar(select(Member).where(Member.account_id == cast.viewer.id)))
    session.commit()
    assert redeem_secret("screen", "known") == "You signed out."


def test_redeem_after_lost_operator_role_is_refused(create_session_on_page, cast):
    create_session_on_page("admin", "/admin")
    assert redeem_secret("screen", "known") is None
    cast.admin.operator_role = "read_only"
    session.commit()
    assert redeem_secret("screen", "known") == "You may no longer open consoles of this instance."


def test_session_timestamps_end_in_z(api_as, running_instance, inline_workers):
    """Microseconds and `Z`, as everywhere."""
    screen = get_created_session(api_as("owner", "GET", f"/api/instance/{running_instance.id}/novnc"))
    get_created_session(api_as("owner", "GET", f"/api/instance/{running_instance.id}/webssh"))
    shell = api_as("owner", "GET", f"/api/instance/{running_instance.id}/ssh-session").json["session"]
    for time in (screen["expires_at"], shell["expires_at"]):
        assert time.endswith("Z")
        assert len(time) == len("2026-11-21T10:15:00.123456Z")
