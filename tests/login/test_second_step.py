"""The second step of signing in: codes of an authenticator and recovery codes."""

import pytest
from sqlalchemy import select, text

from panel.core.db import session
from panel.models import LoginSession, RecoveryCode
from panel.services import accounts, factors
from tests.conftest import connect_rate_limits
from tests.login.conftest import LOCAL_SOURCE

STEP = "/sign-in/second-step"


def test_the_password_alone_opens_nothing(browser_as, sign_in, with_totp):
    browser = browser_as()
    answer = sign_in(browser, address="/sign-in?next=/instances")
    assert answer.headers["Location"] == f"{STEP}?next=/instances"
    assert browser.get("/").headers["Location"].startswith("/sign-in")
    assert browser.get("/profile/security").status_code == 303
    assert session.scalars(select(LoginSession)).all() == []
    shown = browser.get(f"{STEP}?next=/instances")
    assert shown.status_code == 200
    assert "owner@example.com" in shown.text


def test_totp_code_completes_sign_in(browser_as, sign_in, cast, with_totp, totp_code):
    browser = browser_as()
    sign_in(browser)
    answer = browser.post(
        f"{STEP}?next=/instances", data={"code": f" {totp_code(cast.owner)[:3]} {totp_code(cast.owner)[3:]}"}
    )
    assert answer.headers["Location"] == "/instances"
    assert browser.get("/instances").status_code == 200


def test_a_code_counts_once_and_no_older_one_after_it(browser_as, sign_in, cast, with_totp, totp_code, advance_clock):
    used = totp_code(cast.owner)
    for given, status in ((used, 303), (used, 422), (totp_code(cast.owner, -1), 422), (totp_code(cast.owner, 1), 303)):
        browser = browser_as()
        sign_in(browser)
        assert browser.post(STEP, data={"code": given}).status_code == status
    advance_clock(minutes=2)
    browser = browser_as()
    sign_in(browser)
    assert browser.post(STEP, data={"code": used}).status_code == 422
    assert browser.post(STEP, data={"code": totp_code(cast.owner, 2)}).status_code == 422
    assert browser.post(STEP, data={"code": totp_code(cast.owner)}).status_code == 303


def test_a_recovery_code_opens_once(browser_as, sign_in, cast, with_totp, sent_mails):
    first = browser_as()
    sign_in(first)
    assert first.post(STEP, data={"code": with_totp[0].upper()}).status_code == 303
    assert first.get("/").status_code == 200
    assert factors.count_codes(cast.owner) == 9
    second = browser_as()
    sign_in(second)
    refused = second.post(STEP, data={"code": with_totp[0]})
    assert refused.status_code == 422
    assert factors.WRONG_CODE_MESSAGE in refused.text
    assert second.post(STEP, data={"code": with_totp[1].replace("-", "")}).status_code == 303
    assert "A recovery code was used, 9 are left" in [mail["Subject"] for mail in sent_mails("owner@example.com")]


def test_recovery_codes_are_of_one_account(browser_as, sign_in, cast, with_totp, totp_code, advance_clock):
    factors.start_setup(cast.outsider)
    factors.confirm(cast.outsider, totp_code(cast.outsider), LOCAL_SOURCE)
    session.commit()
    advance_clock(minutes=1)
    browser = browser_as()
    sign_in(browser, "outsider@example.com")
    assert browser.post(STEP, data={"code": with_totp[0]}).status_code == 422
    assert browser.post(STEP, data={"code": totp_code(cast.owner)}).status_code == 422
    assert factors.count_codes(cast.owner) == 10


def test_half_a_sign_in_ends_after_five_minutes(browser_as, sign_in, cast, with_totp, totp_code, advance_clock):
    browser = browser_as()
    sign_in(browser)
    advance_clock(minutes=4)
    assert browser.get(STEP).status_code == 200
    advance_clock(minutes=2)
    assert browser.get(STEP).headers["Location"].startswith("/sign-in")
    assert browser.post(STEP, data={"code": totp_code(cast.owner)}).headers["Location"].startswith("/sign-in")
    assert browser.get("/").status_code == 303


def test_half_a_sign_in_ends_with_the_password(browser_as, sign_in, cast, with_totp, totp_code):
    browser = browser_as()
    sign_in(browser)
    accounts.set_password(cast.owner, "quite another password")
    session.commit()
    assert browser.post(STEP, data={"code": totp_code(cast.owner)}).headers["Location"].startswith("/sign-in")
    assert browser.get("/").status_code == 303


@pytest.mark.parametrize("half", [None, [], ["0199c0a8-0000-7000-8000-000000000000", "", 2**40]])
def test_without_the_first_step_there_is_no_second(browser_as, half):
    browser = browser_as()
    if half:
        with browser.session_transaction() as cookie:
            cookie["half"] = half
    for method in ("GET", "POST"):
        assert browser.open(STEP, method=method, data={"code": "123456"}).headers["Location"].startswith("/sign-in")
    assert browser.post(f"{STEP}/passkey", data={"credential": "{}"}).headers["Location"].startswith("/sign-in")


def test_codes_are_throttled(browser_as, sign_in, cast, with_totp, totp_code):
    browser = browser_as()
    sign_in(browser)
    wrong = {"code": "000000" if totp_code(cast.owner) != "000000" else "111111"}
    assert [browser.post(STEP, data=wrong).status_code for _ in range(6)] == [422] * 5 + [429]
    refused = browser.post(STEP, data={"code": totp_code(cast.owner)})
    assert refused.status_code == 429
    assert 0 < int(refused.headers["Retry-After"]) <= 60
    other = browser_as()
    sign_in(other)
    assert other.post(STEP, data={"code": totp_code(cast.owner)}).status_code == 429
    assert other.get("/").status_code == 303


def test_codes_are_limited_by_the_day_and_nobody_is_shut_out_by_it(
    browser_as, sign_in, cast, with_totp, totp_code, advance_time
):
    """Somebody who knows the password guesses for hours. The person's own browser and recovery codes still open."""
    mine = browser_as()
    sign_in(mine)
    assert mine.post(STEP, data={"code": totp_code(cast.owner)}).status_code == 303
    mine.post("/sign-out")
    connect_rate_limits("")
    thief = browser_as()
    thief.environ_base |= {"REMOTE_ADDR": "203.0.113.6"}
    sign_in(thief)
    wrong, answers = {"code": totp_code(cast.owner)}, []
    for _ in range(12):
        answers += [thief.post(STEP, data=wrong).status_code for _ in range(5)]
        advance_time(125)
    assert answers == [422] * 50 + [429] * 10
    sign_in(mine)
    assert mine.post(STEP, data={"code": totp_code(cast.owner, 1)}).status_code == 303
    elsewhere = browser_as()
    sign_in(elsewhere)
    assert elsewhere.post(STEP, data={"code": with_totp[0]}).status_code == 303


def test_the_secret_and_the_codes_are_not_readable_in_the_database(cast, with_totp):
    kept = session.scalar(text("select totp_secret from accounts where email = 'owner@example.com'"))
    assert cast.owner.totp_secret not in kept
    hashes = session.scalars(select(RecoveryCode.secret_hash)).all()
    assert len(hashes) == 10
    assert not {code.replace("-", "") for code in with_totp} & set(hashes)
