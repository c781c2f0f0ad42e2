"""Known devices, and the mails about sign-ins from new browsers."""

from datetime import timedelta

from sqlalchemy import select

from panel.core.db import session
from panel.models import KnownDevice, LoginSession, OneTimeToken
from panel.services import one_time_tokens
from worker.engine.purge import purge_expired

FIREFOX_USER_AGENT = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
NEW_DEVICE_SUBJECT = "New sign-in to your account"


def read_subjects(mails):
    return [mail["Subject"] for mail in mails("owner@example.com")]


def test_sign_in_from_new_browser_sends_mail_except_first(browser_as, sign_in, cast, sent_mails):
    first, second = browser_as(), browser_as()
    assert sign_in(first).status_code == 303
    assert read_subjects(sent_mails) == []
    assert sign_in(first).status_code == 303
    assert read_subjects(sent_mails) == []
    second.environ_base |= {"REMOTE_ADDR": "203.0.113.9"}
    sign_in(second, headers={"User-Agent": FIREFOX_USER_AGENT})
    (mail,) = sent_mails("owner@example.com")
    assert mail["Subject"] == NEW_DEVICE_SUBJECT
    text = mail.get_body(("plain",)).get_content()
    assert "Firefox on Linux" in text
    assert "203.0.113.9" in text
    assert "http://localhost:8000/profile/security" in text


def test_wrong_password_creates_no_known_device(browser_as, sign_in, cast, sent_mails):
    sign_in(browser_as())
    browser = browser_as()
    sign_in(browser, password="wrong")
    assert browser.get_cookie("panel_device") is None
    assert session.scalars(select(KnownDevice)).one().account_id == cast.owner.id


def test_password_step_alone_creates_no_known_device(browser_as, sign_in, totp_recovery_codes):
    browser = browser_as()
    sign_in(browser)
    assert browser.get_cookie("panel_device") is None


def test_device_cookie_is_shared_by_accounts(browser_as, sign_in, cast):
    browser = browser_as()
    sign_in(browser)
    secret = browser.get_cookie("panel_device").value
    browser.post("/sign-out")
    sign_in(browser, "outsider@example.com")
    assert browser.get_cookie("panel_device").value == secret
    assert {row.account_id for row in session.scalars(select(KnownDevice))} == {cast.owner.id, cast.outsider.id}
    assert secret not in {row.secret_hash for row in session.scalars(select(KnownDevice))}


def test_device_cookie_is_http_only_and_outlives_session(browser_as, sign_in):
    browser = browser_as()
    cookies = {cookie.partition("=")[0]: cookie for cookie in sign_in(browser).headers.getlist("Set-Cookie")}
    for name in ("panel", "panel_device"):
        assert "HttpOnly" in cookies[name]
        assert "SameSite=Lax" in cookies[name]
    assert "Max-Age=31536000" in cookies["panel_device"]
    browser.post("/sign-out")
    assert browser.get_cookie("panel_device")


def test_session_references_known_device(browser_as, sign_in, cast):
    sign_in(browser_as())
    assert session.scalars(select(LoginSession)).one().device_id == session.scalars(select(KnownDevice)).one().id


def test_sign_in_replaces_previous_session_cookie(browser_as, sign_in, cast):
    """A cookie from before the sign-in (session fixation) is not valid for the new session."""
    browser = browser_as("outsider")
    before = browser.get_cookie("panel").value
    browser.post("/sign-out")
    attacker = browser_as()
    attacker.set_cookie("panel", before)
    browser.set_cookie("panel", before)
    sign_in(browser)
    assert browser.get_cookie("panel").value != before
    assert attacker.get("/").status_code == 303
    assert {row.account_id for row in session.scalars(select(LoginSession))} == {cast.owner.id}


def test_expired_tokens_and_devices_are_purged(browser_as, sign_in, cast, advance_clock):
    one_time_tokens.create(cast.owner, "reset", timedelta(hours=1))
    sign_in(browser_as())
    advance_clock(hours=2)
    purge_expired()
    assert session.scalars(select(OneTimeToken)).all() == []
    assert len(session.scalars(select(KnownDevice)).all()) == 1
    advance_clock(days=366)
    purge_expired()
    assert session.scalars(select(KnownDevice)).all() == []
