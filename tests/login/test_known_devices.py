"""Known browsers, and the mails about those that are not known."""

from datetime import timedelta

from sqlalchemy import select

from panel.core.db import session
from panel.models import Device, Link, SignIn
from panel.services import one_time_tokens
from worker.engine.purge import tidy

AGENT = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
NEW = "A new device signed in to your account"


def subjects(mails):
    return [mail["Subject"] for mail in mails("owner@example.com")]


def test_an_unknown_browser_is_reported_but_not_the_very_first(browse, sign_in, cast, mails):
    first, second = browse(), browse()
    assert sign_in(first).status_code == 303
    assert subjects(mails) == []
    assert sign_in(first).status_code == 303
    assert subjects(mails) == []
    second.environ_base |= {"REMOTE_ADDR": "203.0.113.9"}
    sign_in(second, headers={"User-Agent": AGENT})
    (mail,) = mails("owner@example.com")
    assert mail["Subject"] == NEW
    text = mail.get_body(("plain",)).get_content()
    assert "Firefox on Linux" in text
    assert "203.0.113.9" in text
    assert "http://localhost:8000/profile/security" in text


def test_a_wrong_password_makes_no_browser_known(browse, sign_in, cast, mails):
    sign_in(browse())
    stranger = browse()
    sign_in(stranger, password="wrong")
    assert stranger.get_cookie("panel_device") is None
    assert session.scalars(select(Device)).one().account_id == cast.owner.id


def test_the_first_of_two_steps_makes_no_browser_known(browse, sign_in, with_totp):
    browser = browse()
    sign_in(browser)
    assert browser.get_cookie("panel_device") is None


def test_one_browser_is_known_to_several_people(browse, sign_in, cast):
    browser = browse()
    sign_in(browser)
    kept = browser.get_cookie("panel_device").value
    browser.post("/sign-out")
    sign_in(browser, "outsider@example.com")
    assert browser.get_cookie("panel_device").value == kept
    assert {row.account_id for row in session.scalars(select(Device))} == {cast.owner.id, cast.outsider.id}
    assert kept not in {row.secret_hash for row in session.scalars(select(Device))}


def test_the_cookie_is_for_the_server_alone_and_outlives_the_session(browse, sign_in):
    browser = browse()
    cookies = {each.partition("=")[0]: each for each in sign_in(browser).headers.getlist("Set-Cookie")}
    for name in ("panel", "panel_device"):
        assert "HttpOnly" in cookies[name]
        assert "SameSite=Lax" in cookies[name]
    assert "Max-Age=31536000" in cookies["panel_device"]
    browser.post("/sign-out")
    assert browser.get_cookie("panel_device")


def test_a_session_says_which_device_it_is_on(browse, sign_in, cast):
    sign_in(browse())
    assert session.scalars(select(SignIn)).one().device_id == session.scalars(select(Device)).one().id


def test_signing_in_leaves_nothing_of_the_session_before(browse, sign_in, cast):
    """A cookie that somebody was given before does not become the cookie of the person."""
    browser = browse("outsider")
    before = browser.get_cookie("panel").value
    browser.post("/sign-out")
    thief = browse()
    thief.set_cookie("panel", before)
    browser.set_cookie("panel", before)
    sign_in(browser)
    assert browser.get_cookie("panel").value != before
    assert thief.get("/").status_code == 303
    assert {row.account_id for row in session.scalars(select(SignIn))} == {cast.owner.id}


def test_what_has_had_its_day_goes(browse, sign_in, cast, move):
    one_time_tokens.make(cast.owner, "reset", timedelta(hours=1))
    sign_in(browse())
    move(hours=2)
    tidy()
    assert session.scalars(select(Link)).all() == []
    assert len(session.scalars(select(Device)).all()) == 1
    move(days=366)
    tidy()
    assert session.scalars(select(Device)).all() == []
