"""A password by mail: lost ones and first ones."""

import re

import pytest
from sqlalchemy import select

from panel.core.db import session
from panel.models import Account, Link, SignIn
from panel.services import accounts
from panel.services.sessions import start
from tests.support.cast import PASSWORD

NEW = "another long password"
CHOICE = {"new": NEW, "again": NEW}


def ask(browser, email="owner@example.com"):
    return browser.post("/forgot-password", data={"email": email})


@pytest.fixture
def link(browse, mails):
    """The address in the last mail of somebody who asked."""

    def asked(email="owner@example.com"):
        assert ask(browse(), email).status_code == 303
        text = mails(email)[-1].get_body(("plain",)).get_content()
        address = re.search(r"Choose a new password: http://localhost:8000(\S+)", text)
        return address[1]

    return asked


def test_the_way_through_a_mail(browse, sign_in, cast, link, mails):
    other = browse("owner")
    address = link()
    browser = browse()
    assert "owner@example.com" in browser.get(address).text
    assert browser.get(address).status_code == 200
    answer = browser.post(address, data=CHOICE)
    assert answer.headers["Location"] == "/sign-in"
    assert "Your password is set" in browser.get("/sign-in").text
    assert browser.get("/").status_code == 303
    assert other.get("/").status_code == 303
    assert sign_in(browse()).status_code == 422
    assert sign_in(browse(), password=NEW).headers["Location"] == "/"
    assert "Your password was changed" in [mail["Subject"] for mail in mails("owner@example.com")]


def test_a_link_works_once(browse, cast, link):
    address = link()
    assert browse().post(address, data=CHOICE).status_code == 303
    for answer in (browse().get(address), browse().get(browse().post(address, data=CHOICE).headers["Location"])):
        assert answer.status_code == 404
        assert "This link works no more" in answer.text
        assert "/forgot-password" in answer.text


def test_a_link_ends_after_an_hour(browse, link, move):
    address = link()
    move(minutes=59)
    assert browse().get(address).status_code == 200
    move(minutes=2)
    assert browse().get(address).status_code == 404


def test_a_link_ends_when_the_password_changes(browse, cast, link):
    address = link()
    browse("owner").post("/profile/password", data={"current": PASSWORD, **CHOICE})
    assert browse().get(address).status_code == 404


def test_a_link_ends_when_the_address_changes(as_, browse, cast, link):
    """The mailbox that it lies in may be somebody else's by now. Saying the same address again changes nothing."""
    address = link()
    change = lambda email: as_("admin", "PUT", f"/api/v1/user/{cast.owner.id}", json={"email": email})  # noqa: E731
    assert change("Owner@example.com").status_code == 200
    assert browse().get(address).status_code == 200
    assert change("olga@example.org").status_code == 200
    assert browse().get(address).status_code == 404


def test_asking_again_takes_no_link_from_the_person(browse, cast, link):
    """Anybody may ask in somebody's name: the mail that the person reads works all the same. One use ends them all."""
    first = link()
    second = link()
    assert browse().post(first, data=CHOICE).headers["Location"] == "/sign-in"
    for address in (first, second):
        assert browse().get(address).status_code == 404


def test_who_guesses_does_not_shut_out_who_sets_a_new_password(browse, sign_in, link):
    """The browser that comes with the link is known from then on, and has attempts of its own."""
    address = link()
    guessers = browse()
    for n in range(11):
        guessers.environ_base |= {"REMOTE_ADDR": f"203.0.113.{n}"}
        guessed = sign_in(guessers, password="wrong").status_code
    assert guessed == 429
    owner = browse()
    assert sign_in(owner, password=PASSWORD).status_code == 429
    owner.post(address, data=CHOICE)
    assert sign_in(owner, password=NEW).headers["Location"] == "/"
    assert sign_in(browse(), password=NEW).status_code == 429


def test_the_second_factor_stays(browse, sign_in, cast, with_totp, link):
    browse().post(link(), data=CHOICE)
    browser = browse()
    assert sign_in(browser, password=NEW).headers["Location"].startswith("/sign-in/second-step")
    assert browser.get("/").status_code == 303


def test_a_first_password(browse, sign_in, link):
    session.add(Account(email="new@example.com"))
    session.commit()
    assert sign_in(browse(), "new@example.com", NEW).status_code == 422
    browse().post(link("new@example.com"), data=CHOICE)
    assert sign_in(browse(), "new@example.com", NEW).status_code == 303


def test_nobody_learns_who_has_an_account(browse, mails, queries):
    seen = []
    browse().get("/forgot-password")
    for email in ("owner@example.com", "nobody@example.com"):
        queries.clear()
        answer = ask(browse(), email)
        seen.append(
            (
                answer.status_code,
                answer.headers["Location"],
                [re.sub(r"_\d+$", "", sql.split("(")[0]) for sql in queries],
            )
        )
    assert seen[0] == seen[1]
    assert [mail["To"] for mail in mails()] == ["owner@example.com"]


def test_an_address_is_not_flooded_with_mails(browse, mails):
    answers = {ask(browse()).status_code for _ in range(6)}
    assert answers == {303}
    assert len(mails("owner@example.com")) == 2


def test_asking_is_throttled_by_address(browse):
    answers = [ask(browse(), f"{n}@example.com").status_code for n in range(11)]
    assert answers == [303] * 10 + [429]


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        ({"new": "short", "again": "short"}, "Length must be between 12 and 1024."),
        ({"new": NEW, "again": NEW + "x"}, "The two are not the same."),
        ({}, "Fill this in."),
    ],
)
def test_a_password_that_is_refused_keeps_the_link(browse, cast, link, sent, message):
    address = link()
    answer = browse().post(address, data=sent)
    assert answer.status_code == 422
    assert message in answer.text
    assert accounts.check_password("owner@example.com", PASSWORD)
    assert browse().get(address).status_code == 200


def test_links_are_guessed_by_nobody(browse, cast, link):
    address = link()
    kept = session.scalars(select(Link)).one()
    for guess in (kept.id, kept.secret_hash, address.rpartition("/")[2][:-1], "x" * 43):
        assert browse().get(f"/reset-password/{guess}").status_code == 404


def test_a_link_for_something_else_sets_no_password(browse, cast, link):
    address = link()
    session.scalars(select(Link)).one().purpose = "sso"
    session.commit()
    assert browse().post(address, data=CHOICE).headers["Location"] == address
    assert accounts.check_password("owner@example.com", PASSWORD)


def test_the_mail_names_the_public_address_whatever_the_request_says(browse, mails):
    browse().post("/forgot-password", data={"email": "owner@example.com"}, headers={"Host": "evil.example"})
    (mail,) = mails("owner@example.com")
    assert "evil.example" not in mail.as_string()


def test_sessions_that_are_open_end(browse, cast, link):
    start(cast.owner, ip="203.0.113.1", user_agent="stolen")
    session.commit()
    browse().post(link(), data=CHOICE)
    assert session.scalars(select(SignIn)).all() == []
