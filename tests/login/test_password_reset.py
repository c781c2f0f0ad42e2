"""Password reset by mail, also for accounts that have no password yet."""

import re

import pytest
from sqlalchemy import select

from panel.core.db import session
from panel.models import Account, LoginSession, OneTimeToken
from panel.services import accounts
from panel.services.sessions import start
from tests.support.cast import PASSWORD

NEW_PASSWORD = "another long password"
NEW_PASSWORD_FORM = {"new": NEW_PASSWORD, "again": NEW_PASSWORD}


def request_reset(browser, email="owner@example.com"):
    return browser.post("/forgot-password", data={"email": email})


@pytest.fixture
def request_reset_link(browser_as, sent_mails):
    """Return a function that requests a reset and returns the path of the link in the mail."""

    def request(email="owner@example.com"):
        assert request_reset(browser_as(), email).status_code == 303
        text = sent_mails(email)[-1].get_body(("plain",)).get_content()
        address = re.search(r"Choose a new password: http://localhost:8000(\S+)", text)
        return address[1]

    return request


def test_reset_link_sets_password_and_ends_sessions(browser_as, sign_in, cast, request_reset_link, sent_mails):
    other = browser_as("owner")
    address = request_reset_link()
    browser = browser_as()
    assert "owner@example.com" in browser.get(address).text
    assert browser.get(address).status_code == 200
    answer = browser.post(address, data=NEW_PASSWORD_FORM)
    assert answer.headers["Location"] == "/sign-in"
    assert "Password set" in browser.get("/sign-in").text
    assert browser.get("/").status_code == 303
    assert other.get("/").status_code == 303
    assert sign_in(browser_as()).status_code == 422
    assert sign_in(browser_as(), password=NEW_PASSWORD).headers["Location"] == "/"
    assert "Your password was changed" in [mail["Subject"] for mail in sent_mails("owner@example.com")]


def test_reset_link_works_once(browser_as, cast, request_reset_link):
    address = request_reset_link()
    assert browser_as().post(address, data=NEW_PASSWORD_FORM).status_code == 303
    for answer in (
        browser_as().get(address),
        browser_as().get(browser_as().post(address, data=NEW_PASSWORD_FORM).headers["Location"]),
    ):
        assert answer.status_code == 404
        assert "This link is no longer valid" in answer.text
        assert "/forgot-password" in answer.text


def test_reset_link_expires_after_one_hour(browser_as, request_reset_link, advance_clock):
    address = request_reset_link()
    advance_clock(minutes=59)
    assert browser_as().get(address).status_code == 200
    advance_clock(minutes=2)
    assert browser_as().get(address).status_code == 404


def test_reset_link_ends_when_password_changes(browser_as, cast, request_reset_link):
    address = request_reset_link()
    browser_as("owner").post("/profile/password", data={"current": PASSWORD, **NEW_PASSWORD_FORM})
    assert browser_as().get(address).status_code == 404


def test_reset_link_ends_when_email_changes(api_as, browser_as, cast, request_reset_link):
    """The old mailbox may have another owner by now. Setting the same address again keeps the link valid."""
    address = request_reset_link()
    change = lambda email: api_as("admin", "PUT", f"/api/v1/user/{cast.owner.id}", json={"email": email})  # noqa: E731
    assert change("Owner@example.com").status_code == 200
    assert browser_as().get(address).status_code == 200
    assert change("olga@example.org").status_code == 200
    assert browser_as().get(address).status_code == 404


def test_second_reset_request_keeps_first_link_valid(browser_as, cast, request_reset_link):
    """Anyone can request a reset for an account, so a request must not end earlier links. One use ends all links."""
    first = request_reset_link()
    second = request_reset_link()
    assert browser_as().post(first, data=NEW_PASSWORD_FORM).headers["Location"] == "/sign-in"
    for address in (first, second):
        assert browser_as().get(address).status_code == 404


def test_password_guessing_does_not_block_password_reset(browser_as, sign_in, request_reset_link):
    """The browser that used the link is a known device, so it has its own attempts."""
    address = request_reset_link()
    attacker = browser_as()
    for n in range(11):
        attacker.environ_base |= {"REMOTE_ADDR": f"203.0.113.{n}"}
        status = sign_in(attacker, password="wrong").status_code
    assert status == 429
    owner = browser_as()
    assert sign_in(owner, password=PASSWORD).status_code == 429
    owner.post(address, data=NEW_PASSWORD_FORM)
    assert sign_in(owner, password=NEW_PASSWORD).headers["Location"] == "/"
    assert sign_in(browser_as(), password=NEW_PASSWORD).status_code == 429


def test_password_reset_keeps_second_factor(browser_as, sign_in, cast, totp_recovery_codes, request_reset_link):
    browser_as().post(request_reset_link(), data=NEW_PASSWORD_FORM)
    browser = browser_as()
    assert sign_in(browser, password=NEW_PASSWORD).headers["Location"].startswith("/sign-in/second-step")
    assert browser.get("/").status_code == 303


def test_reset_link_sets_first_password(browser_as, sign_in, request_reset_link):
    session.add(Account(email="new@example.com"))
    session.commit()
    assert sign_in(browser_as(), "new@example.com", NEW_PASSWORD).status_code == 422
    browser_as().post(request_reset_link("new@example.com"), data=NEW_PASSWORD_FORM)
    assert sign_in(browser_as(), "new@example.com", NEW_PASSWORD).status_code == 303


def test_reset_request_hides_whether_account_exists(browser_as, sent_mails, queries):
    results = []
    browser_as().get("/forgot-password")
    for email in ("owner@example.com", "nobody@example.com"):
        queries.clear()
        answer = request_reset(browser_as(), email)
        results.append(
            (
                answer.status_code,
                answer.headers["Location"],
                [re.sub(r"_\d+$", "", sql.split("(")[0]) for sql in queries],
            )
        )
    assert results[0] == results[1]
    assert [mail["To"] for mail in sent_mails()] == ["owner@example.com"]


def test_reset_mails_are_limited_by_account(browser_as, sent_mails):
    answers = {request_reset(browser_as()).status_code for _ in range(6)}
    assert answers == {303}
    assert len(sent_mails("owner@example.com")) == 2


def test_reset_requests_are_limited_by_ip(browser_as):
    answers = [request_reset(browser_as(), f"{n}@example.com").status_code for n in range(11)]
    assert answers == [303] * 10 + [429]


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        ({"new": "short", "again": "short"}, "Length must be between 12 and 1024."),
        ({"new": NEW_PASSWORD, "again": NEW_PASSWORD + "x"}, "The passwords do not match."),
        ({}, "This field is required."),
    ],
)
def test_rejected_password_keeps_reset_link_valid(browser_as, cast, request_reset_link, sent, message):
    address = request_reset_link()
    answer = browser_as().post(address, data=sent)
    assert answer.status_code == 422
    assert message in answer.text
    assert accounts.authenticate("owner@example.com", PASSWORD)
    assert browser_as().get(address).status_code == 200


def test_guessed_reset_links_are_rejected(browser_as, cast, request_reset_link):
    address = request_reset_link()
    row = session.scalars(select(OneTimeToken)).one()
    for guess in (row.id, row.secret_hash, address.rpartition("/")[2][:-1], "x" * 43):
        assert browser_as().get(f"/reset-password/{guess}").status_code == 404


def test_one_time_token_of_other_purpose_cannot_reset_password(browser_as, cast, request_reset_link):
    address = request_reset_link()
    session.scalars(select(OneTimeToken)).one().purpose = "sso"
    session.commit()
    assert browser_as().post(address, data=NEW_PASSWORD_FORM).headers["Location"] == address
    assert accounts.authenticate("owner@example.com", PASSWORD)


def test_reset_mail_ignores_host_header(browser_as, sent_mails):
    browser_as().post("/forgot-password", data={"email": "owner@example.com"}, headers={"Host": "evil.example"})
    (mail,) = sent_mails("owner@example.com")
    assert "evil.example" not in mail.as_string()


def test_password_reset_ends_all_sessions(browser_as, cast, request_reset_link):
    start(cast.owner, ip="203.0.113.1", user_agent="stolen")
    session.commit()
    browser_as().post(request_reset_link(), data=NEW_PASSWORD_FORM)
    assert session.scalars(select(LoginSession)).all() == []
