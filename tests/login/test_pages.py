"""Signing in and out."""

from datetime import timedelta

import pytest
from sqlalchemy import select

from panel.core import clock
from panel.core.db import session
from panel.models import SignIn
from tests.support.cast import PASSWORD

WRONG = "The email address or the password is wrong."


def sign_in(browser, email="owner@example.com", password=PASSWORD, address="/sign-in"):
    return browser.post(address, data={"email": email, "password": password})


def test_sign_in_and_out(browse, cast):
    browser = browse()
    answer = sign_in(browser, email=" Owner@Example.com ")
    assert (answer.status_code, answer.headers["Location"]) == (303, "/")
    cookie = answer.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Lax" in cookie
    assert browser.get("/").status_code == 200
    assert "Olga Owner" in browser.get("/").text
    (kept,) = session.scalars(select(SignIn).where(SignIn.account_id == cast.owner.id)).all()
    assert kept.secret_hash not in cookie
    out = browser.post("/sign-out")
    assert out.headers["Location"] == "/sign-in"
    assert browser.get("/").status_code == 303
    assert session.scalars(select(SignIn)).all() == []


@pytest.mark.parametrize(
    ("email", "password"),
    [
        ("owner@example.com", "not the password"),
        ("nobody@example.com", PASSWORD),
        ("owner@example.com", PASSWORD + " "),
    ],
)
def test_a_refusal_does_not_say_what_was_wrong(browse, email, password):
    browser = browse()
    answer = sign_in(browser, email, password)
    assert answer.status_code == 422
    assert WRONG in answer.text
    assert f'value="{email}"' in answer.text
    assert password not in answer.text
    assert browser.get("/").status_code == 303


def test_without_values(browse):
    answer = browse().post("/sign-in", data={"email": "", "password": ""})
    assert answer.status_code == 422
    assert answer.text.count("Fill this in.") == 2


@pytest.mark.parametrize(
    "wanted", ["https://evil.example/", "//evil.example/", "/\\evil.example", "javascript:alert(1)", "/\nhttp:evil", ""]
)
def test_the_way_on_is_a_page_of_ours(browse, wanted):
    assert sign_in(browse(), address="/sign-in?next=" + wanted.replace("\n", "%0a")).headers["Location"] == "/"


def test_the_way_on(browse):
    assert sign_in(browse(), address="/sign-in?next=/instances%3Fstate%3Drunning").headers["Location"] == (
        "/instances?state=running"
    )


def test_a_session_ends(browse, cast):
    browser = browse("owner")
    assert browser.get("/").status_code == 200
    session.scalars(select(SignIn)).one().expires_at = clock.now() - timedelta(seconds=1)
    session.commit()
    assert browser.get("/").status_code == 303


def test_an_invented_cookie_is_nobody(browse):
    browser = browse()
    with browser.session_transaction() as cookie:
        cookie["_user_id"] = "made up"
    assert browser.get("/").status_code == 303
