"""A password by mail: lost ones and first ones."""

import re

import pytest
from sqlalchemy import select

from panel.core.db import session
from panel.models import Account, LoginSession, OneTimeToken
from panel.services import accounts
from panel.services.sessions import start
from tests.support.cast import PASSWORD

NEW_PASSWORD = "another long password"
CHOICE = {"new": NEW_PASSWORD, "again": NEW_PASSWORD}


def request_reset(browser, email="owner@example.com"):
    return browser.post("/forgot-password", data={"email": email})


@pytest.fixture
def link(browser_as, sent_mails):
    """The address in the last mail of somebody who asked."""

    def asked(email="owner@example.com"):
        assert request_reset(browser_as(), email).status_code == 303
        text = sent_mails(email)[-1].get_body(("plain",)).get_content()
        address = re.search(r"Choose a new password: http://localhost:8000(\S+)", text)
        return address[1]

    return asked


def test_the_way_through_a_mail(browser_as, sign_in, cast, link, sent_mails):
    other = browser_as("owner")
    address = link()
    browser = browser_as()
    assert "owner@example.com" in browser.get(address).text
    assert browser.get(address).status_code == 200
    answer = browser.post(address, data=CHOICE)
    assert answer.headers["Location"] == "/sign-in"
    assert "Password set" in browser.get("/sign-in").text
    assert browser.get("/").status_code == 303
    assert other.get("/").status_code == 303
    assert sign_in(browser_as()).status_code == 422
    assert sign_in(browser_as(), password=NEW_PASSWORD).headers["Location"] == "/"
    assert "Your password was changed" in [mail["Subject"] for mail in sent_mails("owner@example.com")]


def test_a_link_works_once(browser_as, cast, link):
    address = link()
    assert browser_as().post(address, data=CHOICE).status_code == 303
    for answer in (
        browser_as().get(address),
        browser_as().get(browser_as().post(address, data=CHOICE).headers["Location"]),
    ):
        assert answer.status_code == 404
        assert "This link is no longer valid" in answer.text
        assert "/forgot-password" in answer.text


def test_a_link_ends_after_an_hour(browser_as, link, advance_clock):
    address = link()
    advance_clock(minutes=59)
    assert browser_as().get(address).status_code == 200
    advance_clock(minutes=2)
    assert browser_as().get(address).status_code == 404


def test_a_link_ends_when_the_password_changes(browser_as, cast, link):
    address = link()
    browser_as("owner").post("/profile/password", data={"current": PASSWORD, **CHOICE})
    assert browser_as().get(address).status_code == 404


def test_a_link_ends_when_the_address_changes(api_as, browser_as, cast, link):
    """The mailbox that it lies in may be somebody else's by now. Saying the same address again changes nothing."""
    address = link()
    change = lambda email: api_as("admin", "PUT", f"/api/v1/user/{cast.owner.id}", json={"email": email})  # noqa: E731
    assert change("Owner@example.com").status_code == 200
    assert browser_as().get(address).status_code == 200
    assert change("olga@example.org").status_code == 200
    assert browser_as().get(address).status_code == 404


def test_asking_again_takes_no_link_from_the_person(browser_as, cast, link):
    """Anybody may ask in somebody's name: the mail that the person reads works all the same. One use ends them all."""
    first = link()
    second = link()
    assert browser_as().post(first, data=CHOICE).headers["Location"] == "/sign-in"
    for address in (first, second):
        assert browser_as().get(address).status_code == 404


def test_who_guesses_does_not_shut_out_who_sets_a_new_password(browser_as, sign_in, link):
    """The browser that comes with the link is known from then on, and has attempts of its own."""
    address = link()
    guessers = browser_as()
    for n in range(11):
        guessers.environ_base |= {"REMOTE_ADDR": f"203.0.113.{n}"}
        guessed = sign_in(guessers, password="wrong").status_code
    assert guessed == 429
    owner = browser_as()
    assert sign_in(owner, password=PASSWORD).status_code == 429
    owner.post(address, data=CHOICE)
    assert sign_in(owner, password=NEW_PASSWORD).headers["Location"] == "/"
    assert sign_in(browser_as(), password=NEW_PASSWORD).status_code == 429


def test_the_second_factor_stays(browser_as, sign_in, cast, with_totp, link):
    browser_as().post(link(), data=CHOICE)
    browser = browser_as()
    assert sign_in(browser, password=NEW_PASSWORD).headers["Location"].startswith("/sign-in/second-step")
    assert browser.get("/").status_code == 303


def test_a_first_password(browser_as, sign_in, link):
    session.add(Account(email="new@example.com"))
    session.commit()
    assert sign_in(browser_as(), "new@example.com", NEW_PASSWORD).status_code == 422
    browser_as().post(link("new@example.com"), data=CHOICE)
    assert sign_in(browser_as(), "new@example.com", NEW_PASSWORD).status_code == 303


def test_nobody_learns_who_has_an_account(browser_as, sent_mails, queries):
    seen = []
    browser_as().get("/forgot-password")
    for email in ("owner@example.com", "nobody@example.com"):
        queries.clear()
        answer = request_reset(browser_as(), email)
        seen.append(
            (
                answer.status_code,
                answer.headers["Location"],
                [re.sub(r"_\d+$", "", sql.split("(")[0]) for sql in queries],
            )
        )
    assert seen[0] == seen[1]
    assert [mail["To"] for mail in sent_mails()] == ["owner@example.com"]


def test_an_address_is_not_flooded_with_mails(browser_as, sent_mails):
    answers = {request_reset(browser_as()).status_code for _ in range(6)}
    assert answers == {303}
    assert len(sent_mails("owner@example.com")) == 2


def test_asking_is_throttled_by_address(browser_as):
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
def test_a_password_that_is_refused_keeps_the_link(browser_as, cast, link, sent, message):
    address = link()
    answer = browser_as().post(address, data=sent)
    assert answer.status_code == 422
    assert message in answer.text
    assert accounts.authenticate("owner@example.com", PASSWORD)
    assert browser_as().get(address).status_code == 200


def test_links_are_guessed_by_nobody(browser_as, cast, link):
    address = link()
    kept = session.scalars(select(OneTimeToken)).one()
    for guess in (kept.id, kept.secret_hash, address.rpartition("/")[2][:-1], "x" * 43):
        assert browser_as().get(f"/reset-password/{guess}").status_code == 404


def test_a_link_for_something_else_sets_no_password(browser_as, cast, link):
    address = link()
    session.scalars(select(OneTimeToken)).one().purpose = "sso"
    session.commit()
    assert browser_as().post(address, data=CHOICE).headers["Location"] == address
    assert accounts.authenticate("owner@example.com", PASSWORD)


def test_the_mail_names_the_public_address_whatever_the_request_says(browser_as, sent_mails):
    browser_as().post("/forgot-password", data={"email": "owner@example.com"}, headers={"Host": "evil.example"})
    (mail,) = sent_mails("owner@example.com")
    assert "evil.example" not in mail.as_string()


def test_sessions_that_are_open_end(browser_as, cast, link):
    start(cast.owner, ip="203.0.113.1", user_agent="stolen")
    session.commit()
    browser_as().post(link(), data=CHOICE)
    assert session.scalars(select(LoginSession)).all() == []
