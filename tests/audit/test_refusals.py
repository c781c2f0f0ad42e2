"""Refused sign-ins write an entry and nothing else."""

import pytest
from sqlalchemy import select

from panel.core.db import session
from panel.models import Account, AuditEntry
from panel.services import audit, settings
from tests.support.html_pages import PARTIAL_HEADERS


def record_failed_sign_in(email):
    return audit.add_failed_sign_in(email, ip="192.0.2.1", action="sign_in.start")


def test_failed_sign_in_entry_belongs_to_account(rolled_back_app, cast):
    entry = record_failed_sign_in(" Owner@example.com")
    assert (entry.account_id, entry.person_id, entry.person) == (cast.owner.id, cast.owner.id, "owner@example.com")
    assert (entry.person_kind, entry.changes) == ("nobody", {"did": "refused"})
    assert record_failed_sign_in("member@example.com").account_id == cast.owner.id


@pytest.mark.parametrize(
    ("typed", "recorded_email"), [("who@example.com", "who@example.com"), ("my password", "nobody")]
)
def test_failed_sign_in_with_unknown_email_belongs_to_platform(rolled_back_app, typed, recorded_email):
    entry = record_failed_sign_in(typed)
    assert (entry.account_id, entry.person_id, entry.person) == (None, None, recorded_email)


@pytest.mark.parametrize("headers", [{}, PARTIAL_HEADERS])
def test_wrong_password_writes_one_entry(browser_as, cast, headers):
    data = {"email": "Owner@example.com", "password": "a wrong password"}
    assert browser_as().post("/sign-in", data=data, headers=headers).status_code == (200 if headers else 422)
    entry = session.scalars(select(AuditEntry)).one()
    assert (entry.action, entry.ip, entry.person) == ("sign_in.start", "127.0.0.1", "owner@example.com")
    assert "Refused" in browser_as("owner").get("/activity/log").text


def test_refused_sign_in_rolls_back_other_writes(browser_as, cast, monkeypatch):
    def check_password(*_):
        cast.owner.first_name = "Mallory"
        session.flush()

    monkeypatch.setattr("panel.services.accounts.authenticate", check_password)
    browser_as().post("/sign-in", data={"email": "owner@example.com", "password": "x"})
    assert session.scalar(select(AuditEntry.action)) == "sign_in.start"
    assert session.scalar(select(Account.first_name).where(Account.id == cast.owner.id)) == "Olga"


def test_rate_limited_sign_in_writes_no_entry(browser_as, cast):
    settings.update({"rate_limit_sign_in": 2})
    for status in (422, 422, 429, 429):
        data = {"email": "owner@example.com", "password": "a wrong password"}
        assert browser_as().post("/sign-in", data=data).status_code == status
    assert len(session.scalars(select(AuditEntry)).all()) == 2
