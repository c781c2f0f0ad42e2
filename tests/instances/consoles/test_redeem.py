"""An unspent session does not open once its right has ended (finding B1): nothing goes to the node for it."""

import ipaddress

import pytest
from sqlalchemy import select

from panel.core import clock
from panel.core.db import session
from panel.core.errors import Forbidden
from panel.models import Account, ConsoleSession, Instance, Member, Role, Token
from panel.services import consoles, instances, team
from panel.services.tokens import hash_secret
from tests.instances.consoles.conftest import console_sessions, created_session

ADDRESS = ipaddress.ip_address("192.0.2.7")
PERMISSION = "instances.console"


@pytest.fixture
def mint_secret(api_as, running, inline_workers):
    """Mint a session and return its row's id and its secret."""

    def make(kind="screen", who="owner"):
        path = {"screen": "novnc", "shell": "ssh" if who == "admin" else "webssh"}[kind]
        prefix = "/api/v1" if who == "admin" else "/api"
        found = created_session(api_as(who, "GET", f"{prefix}/instance/{running.id}/{path}"), who)
        secret = found["url"].partition("session=")[2] if kind == "screen" else found["token"]
        return console_sessions()[-1].id, secret

    return make


def redeem_secret(kind, secret):
    """Return the sentence of the refusal, or None when the session opens."""
    session.expire_all()
    try:
        consoles.redeem(kind, secret, ADDRESS, lambda role: role in ("full", "support"))
    except Forbidden as refused:
        session.rollback()
        return refused.message
    session.rollback()
    return None


def revoke_token(row, running):
    session.delete(session.get(Token, row.opened_by["token_id"]))


def suspend_instance(row, running):
    session.get(Instance, running.id).suspended_reason = "admin"


def turn_screen_off(row, running):
    session.get(Instance, running.id).enable_vnc = False


def turn_machine_off(row, running):
    session.get(Instance, running.id).power = "off"


def suspend_account(row, running):
    session.get(Account, running.account_id).suspended_at = clock.now()


def destroy_instance(row, running):
    instances.destroy(session.get(Instance, running.id), actor="owner@example.com")


@pytest.mark.parametrize("kind", ["screen", "shell"])
@pytest.mark.parametrize(
    ("end", "because"),
    [
        (revoke_token, "The token that opened this console is no longer valid."),
        (suspend_instance, "The instance was suspended."),
        (suspend_account, "You may no longer open consoles of this instance."),
        (destroy_instance, "The machine is being destroyed or reinstalled."),
    ],
)
def test_an_unspent_session_is_refused_once_its_right_has_ended(mint_secret, running, kind, end, because):
    """Finding B1."""
    session_id, secret = mint_secret(kind)
    assert redeem_secret(kind, secret) is None
    end(session.get(ConsoleSession, session_id), running)
    session.commit()
    assert redeem_secret(kind, secret) == because
    assert session.get(ConsoleSession, session_id).redeemed_at is None


@pytest.mark.parametrize("end", [revoke_token, suspend_instance, suspend_account, turn_screen_off])
def test_the_page_of_an_unspent_session_is_closed_once_its_right_has_ended(mint_secret, browser_as, running, end):
    """Neither the machine's name nor the password of its screen is told."""
    session_id, secret = mint_secret()
    password, name = session.get(ConsoleSession, session_id).password, running.display_name
    path = f"/console/{secret}"
    assert password in browser_as().get(path).text
    end(session.get(ConsoleSession, session_id), running)
    session.commit()
    page = browser_as().get(path)
    assert page.status_code == 404
    assert "This console cannot be reopened" in page.text
    assert password not in page.text
    assert name not in page.text


@pytest.mark.parametrize(
    ("kind", "end", "because"),
    [
        ("screen", turn_screen_off, "The console of this instance was turned off."),
        ("shell", turn_machine_off, "The instance was powered off."),
    ],
)
def test_an_unspent_session_is_refused_once_the_machine_has_no_such_console(mint_secret, running, kind, end, because):
    """Finding B1."""
    session_id, secret = mint_secret(kind)
    end(session.get(ConsoleSession, session_id), running)
    session.commit()
    assert redeem_secret(kind, secret) == because


def test_an_operators_session_opens_on_a_suspended_machine(mint_secret, running):
    """Finding B1: the same rule as for a console that is open."""
    _, secret = mint_secret(who="admin")
    suspend_instance(None, running)
    session.commit()
    assert redeem_secret("screen", secret) is None


@pytest.fixture
def mint_by_page(browser_as, running):
    """Mint a screen's session at the page of a person; return the row's id, with a secret that is known here."""

    def make(who, prefix=""):
        browser = browser_as(who)
        browser.post(f"{prefix}/instances/{running.id}/console")
        row = console_sessions()[-1]
        row.secret_hash = hash_secret("known")
        session.commit()
        return browser, row.id

    return make


def test_a_sign_out_ends_unspent_sessions(mint_by_page):
    """Finding B1."""
    browser, _ = mint_by_page("owner")
    assert redeem_secret("screen", "known") is None
    browser.post("/sign-out")
    assert redeem_secret("screen", "known") == "You signed out."


def test_a_member_who_loses_the_right_opens_no_unspent_session(mint_by_page, cast):
    """Finding B1: by a changed role, and by leaving the team."""
    role = session.scalar(select(Role).where(Role.name == "Viewer"))
    held, role.permissions = role.permissions, [*role.permissions, PERMISSION]
    session.commit()
    mint_by_page("viewer")
    assert redeem_secret("screen", "known") is None
    session.scalar(select(Role).where(Role.name == "Viewer")).permissions = held
    session.commit()
    assert redeem_secret("screen", "known") == "You may no longer open consoles of this instance."


def test_a_member_who_is_removed_opens_no_unspent_session(mint_by_page, cast):
    """Finding B1."""
    role = session.scalar(select(Role).where(Role.name == "Viewer"))
    role.permissions = [*role.permissions, PERMISSION]
    session.commit()
    mint_by_page("viewer")
    team.remove(session.scalar(select(Member).where(Member.account_id == cast.viewer.id)))
    session.commit()
    assert redeem_secret("screen", "known") == "You signed out."


def test_an_operator_who_is_none_any_more_opens_no_unspent_session(mint_by_page, cast):
    """Finding B1."""
    mint_by_page("admin", "/admin")
    assert redeem_secret("screen", "known") is None
    cast.admin.operator_role = "read_only"
    session.commit()
    assert redeem_secret("screen", "known") == "You may no longer open consoles of this instance."


def test_times_of_sessions_end_in_z(api_as, running, inline_workers):
    """Finding B8: microseconds and `Z`, as everywhere."""
    screen = created_session(api_as("owner", "GET", f"/api/instance/{running.id}/novnc"))
    created_session(api_as("owner", "GET", f"/api/instance/{running.id}/webssh"))
    shell = api_as("owner", "GET", f"/api/instance/{running.id}/ssh-session").json["session"]
    for time in (screen["expires_at"], shell["expires_at"]):
        assert time.endswith("Z")
        assert len(time) == len("2026-11-21T10:15:00.123456Z")
