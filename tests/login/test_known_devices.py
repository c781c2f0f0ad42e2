"""Known browsers, and the mails about those that are not known."""

from datetime import timedelta

from sqlalchemy import select

from panel.core.db import session
from panel.models import KnownDevice, LoginSession, OneTimeToken
from panel.services import one_time_tokens
from worker.engine.purge import purge_expired

AGENT = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
NEW_DEVICE_SUBJECT = "New sign-in to your account"


def subjects(mails):
    return [mail["Subject"] for mail in mails("owner@example.com")]


def test_an_unknown_browser_is_reported_but_not_the_very_first(browser_as, sign_in, cast, sent_mails):
    first, second = browser_as(), browser_as()
    assert sign_in(first).status_code == 303
    assert subjects(sent_mails) == []
    assert sign_in(first).status_code == 303
    assert subjects(sent_mails) == []
    second.environ_base |= {"REMOTE_ADDR": "203.0.113.9"}
    sign_in(second, headers={"User-Agent": AGENT})
    (mail,) = sent_mails("owner@example.com")
    assert mail["Subject"] == NEW_DEVICE_SUBJECT
    text = mail.get_body(("plain",)).get_content()
    assert "Firefox on Linux" in text
    assert "203.0.113.9" in text
    assert "http://localhost:8000/profile/security" in text


def test_a_wrong_password_makes_no_browser_known(browser_as, sign_in, cast, sent_mails):
    sign_in(browser_as())
    stranger = browser_as()
    sign_in(stranger, password="wrong")
    assert stranger.get_cookie("panel_device") is None
    assert session.scalars(select(KnownDevice)).one().account_id == cast.owner.id


def test_the_first_of_two_steps_makes_no_browser_known(browser_as, sign_in, with_totp):
    browser = browser_as()
    sign_in(browser)
    assert browser.get_cookie("panel_device") is None


def test_one_browser_is_known_to_several_people(browser_as, sign_in, cast):
    browser = browser_as()
    sign_in(browser)
    kept = browser.get_cookie("panel_device").value
    browser.post("/sign-out")
    sign_in(browser, "outsider@example.com")
    assert browser.get_cookie("panel_device").value == kept
    assert {row.account_id for row in session.scalars(select(KnownDevice))} == {cast.owner.id, cast.outsider.id}
    assert kept not in {row.secret_hash for row in session.scalars(select(KnownDevice))}


def test_the_cookie_is_for_the_server_alone_and_outlives_the_session(browser_as, sign_in):
    browser = browser_as()
    cookies = {each.partition("=")[0]: each for each in sign_in(browser).headers.getlist("Set-Cookie")}
    for name in ("panel", "panel_device"):
        assert "HttpOnly" in cookies[name]
        assert "SameSite=Lax" in cookies[name]
    assert "Max-Age=31536000" in cookies["panel_device"]
    browser.post("/sign-out")
    assert browser.get_cookie("panel_device")


def test_a_session_says_which_device_it_is_on(browser_as, sign_in, cast):
    sign_in(browser_as())
    assert session.scalars(select(LoginSession)).one().device_id == session.scalars(select(KnownDevice)).one().id


def test_signing_in_leaves_nothing_of_the_session_before(browser_as, sign_in, cast):
    """A cookie that somebody was given before does not become the cookie of the person."""
    browser = browser_as("outsider")
    before = browser.get_cookie("panel").value
    browser.post("/sign-out")
    thief = browser_as()
    thief.set_cookie("panel", before)
    browser.set_cookie("panel", before)
    sign_in(browser)
    assert browser.get_cookie("panel").value != before
    assert thief.get("/").status_code == 303
    assert {row.account_id for row in session.scalars(select(LoginSession))} == {cast.owner.id}


def test_what_has_had_its_day_goes(browser_as, sign_in, cast, advance_clock):
    one_time_tokens.create(cast.owner, "reset", timedelta(hours=1))
    sign_in(browser_as())
    advance_clock(hours=2)
    purge_expired()
    assert session.scalars(select(OneTimeToken)).all() == []
    assert len(session.scalars(select(KnownDevice)).all()) == 1
    advance_clock(days=366)
    purge_expired()
    assert session.scalars(select(KnownDevice)).all() == []
