"""The sign-in and sign-out pages."""

from datetime import timedelta

import pytest
from sqlalchemy import select

from panel.core import clock
from panel.core.db import session
from panel.models import LoginSession
from tests.support.cast import PASSWORD

WRONG_CREDENTIALS_MESSAGE = "The email address or the password is wrong."


def sign_in(browser, email="owner@example.com", password=PASSWORD, address="/sign-in"):
    return browser.post(address, data={"email": email, "password": password})


def test_sign_in_and_sign_out(browser_as, cast):
    browser = browser_as()
    answer = sign_in(browser, email=" Owner@Example.com ")
    assert (answer.status_code, answer.headers["Location"]) == (303, "/")
    cookie = answer.headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Lax" in cookie
    assert browser.get("/").status_code == 200
    assert "Olga Owner" in browser.get("/").text
    (login_session,) = session.scalars(select(LoginSession).where(LoginSession.account_id == cast.owner.id)).all()
    assert login_session.secret_hash not in cookie
    out = browser.post("/sign-out")
    assert out.headers["Location"] == "/sign-in"
    assert browser.get("/").status_code == 303
    assert session.scalars(select(LoginSession)).all() == []


@pytest.mark.parametrize(
    ("email", "password"),
    [
        ("owner@example.com", "not the password"),
        ("nobody@example.com", PASSWORD),
        ("owner@example.com", PASSWORD + " "),
    ],
)
def test_sign_in_error_hides_whether_account_exists(browser_as, email, password):
    browser = browser_as()
    answer = sign_in(browser, email, password)
    assert answer.status_code == 422
    assert WRONG_CREDENTIALS_MESSAGE in answer.text
    assert f'value="{email}"' in answer.text
    assert password not in answer.text
    assert browser.get("/").status_code == 303


def test_sign_in_form_requires_email_and_password(browser_as):
    answer = browser_as().post("/sign-in", data={"email": "", "password": ""})
    assert answer.status_code == 422
    assert answer.text.count("This field is required.") == 2


@pytest.mark.parametrize(
    "next_url",
    ["https://evil.example/", "//evil.example/", "/\\evil.example", "javascript:alert(1)", "/\nhttp:evil", ""],
)
def test_sign_in_ignores_external_next_url(browser_as, next_url):
    assert sign_in(browser_as(), address="/sign-in?next=" + next_url.replace("\n", "%0a")).headers["Location"] == "/"


def test_sign_in_redirects_to_next_page(browser_as):
    assert sign_in(browser_as(), address="/sign-in?next=/instances%3Fstate%3Drunning").headers["Location"] == (
        "/instances?state=running"
    )


def test_operator_who_opened_the_address_alone_starts_in_the_admin_area(browser_as, cast):
    """The panel's address leads to /sign-in?next=/."""
    browser = browser_as()
    address = browser.get("/").headers["Location"]
    assert address == "/sign-in?next=/"
    assert sign_in(browser, cast.admin.email, address=address).headers["Location"] == "/admin"


def test_expired_session_requires_sign_in(browser_as, cast):
    browser = browser_as("owner")
    assert browser.get("/").status_code == 200
    session.scalars(select(LoginSession)).one().expires_at = clock.now() - timedelta(seconds=1)
    session.commit()
    assert browser.get("/").status_code == 303


def test_invalid_session_cookie_requires_sign_in(browser_as):
    browser = browser_as()
    with browser.session_transaction() as cookie:
        cookie["_user_id"] = "made up"
    assert browser.get("/").status_code == 303
