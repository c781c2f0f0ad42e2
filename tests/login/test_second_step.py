"""The second step of the sign-in: TOTP codes and recovery codes."""

import pytest
from sqlalchemy import select, text

from panel.core.db import session
from panel.models import LoginSession, RecoveryCode
from panel.services import accounts, factors
from tests.login.sources import LOCAL_SOURCE
from tests.support.rate_limit_clock import connect_rate_limits

STEP_PATH = "/sign-in/second-step"


def test_password_alone_does_not_sign_in(browser_as, sign_in, totp_recovery_codes):
    browser = browser_as()
    answer = sign_in(browser, address="/sign-in?next=/instances")
    assert answer.headers["Location"] == f"{STEP_PATH}?next=/instances"
    assert browser.get("/").headers["Location"].startswith("/sign-in")
    assert browser.get("/profile/security").status_code == 303
    assert session.scalars(select(LoginSession)).all() == []
    page = browser.get(f"{STEP_PATH}?next=/instances")
    assert page.status_code == 200
    assert "owner@example.com" in page.text


def test_totp_code_completes_sign_in(browser_as, sign_in, cast, totp_recovery_codes, totp_code):
    browser = browser_as()
    sign_in(browser)
    answer = browser.post(
        f"{STEP_PATH}?next=/instances",
        data={"code": f" {totp_code(cast.owner)[:3]} {totp_code(cast.owner)[3:]}"},
    )
    assert answer.headers["Location"] == "/instances"
    assert browser.get("/instances").status_code == 200


def test_totp_code_and_older_codes_cannot_be_reused(
    browser_as, sign_in, cast, totp_recovery_codes, totp_code, advance_clock
):
    used_code = totp_code(cast.owner)
    for code, status in (
        (used_code, 303),
        (used_code, 422),
        (totp_code(cast.owner, -1), 422),
        (totp_code(cast.owner, 1), 303),
    ):
        browser = browser_as()
        sign_in(browser)
        assert browser.post(STEP_PATH, data={"code": code}).status_code == status
    advance_clock(minutes=2)
    browser = browser_as()
    sign_in(browser)
    assert browser.post(STEP_PATH, data={"code": used_code}).status_code == 422
    assert browser.post(STEP_PATH, data={"code": totp_code(cast.owner, 2)}).status_code == 422
    assert browser.post(STEP_PATH, data={"code": totp_code(cast.owner)}).status_code == 303


def test_recovery_code_works_once(browser_as, sign_in, cast, totp_recovery_codes, sent_mails):
    first = browser_as()
    sign_in(first)
    assert first.post(STEP_PATH, data={"code": totp_recovery_codes[0].upper()}).status_code == 303
    assert first.get("/").status_code == 200
    assert factors.count_codes(cast.owner) == 9
    second = browser_as()
    sign_in(second)
    refused = second.post(STEP_PATH, data={"code": totp_recovery_codes[0]})
    assert refused.status_code == 422
    assert factors.WRONG_CODE_MESSAGE in refused.text
    assert second.post(STEP_PATH, data={"code": totp_recovery_codes[1].replace("-", "")}).status_code == 303
    assert "A recovery code was used, 9 are left" in [mail["Subject"] for mail in sent_mails("owner@example.com")]


def test_codes_of_other_account_are_rejected(browser_as, sign_in, cast, totp_recovery_codes, totp_code, advance_clock):
    factors.start_setup(cast.outsider)
    factors.confirm(cast.outsider, totp_code(cast.outsider), LOCAL_SOURCE)
    session.commit()
    advance_clock(minutes=1)
    browser = browser_as()
    sign_in(browser, "outsider@example.com")
    assert browser.post(STEP_PATH, data={"code": totp_recovery_codes[0]}).status_code == 422
    assert browser.post(STEP_PATH, data={"code": totp_code(cast.owner)}).status_code == 422
    assert factors.count_codes(cast.owner) == 10


def test_pending_second_step_expires_after_five_minutes(
    browser_as, sign_in, cast, totp_recovery_codes, totp_code, advance_clock
):
    browser = browser_as()
    sign_in(browser)
    advance_clock(minutes=4)
    assert browser.get(STEP_PATH).status_code == 200
    advance_clock(minutes=2)
    assert browser.get(STEP_PATH).headers["Location"].startswith("/sign-in")
    assert browser.post(STEP_PATH, data={"code": totp_code(cast.owner)}).headers["Location"].startswith("/sign-in")
    assert browser.get("/").status_code == 303


def test_pending_second_step_ends_when_password_changes(browser_as, sign_in, cast, totp_recovery_codes, totp_code):
    browser = browser_as()
    sign_in(browser)
    accounts.set_password(cast.owner, "quite another password")
    session.commit()
    assert browser.post(STEP_PATH, data={"code": totp_code(cast.owner)}).headers["Location"].startswith("/sign-in")
    assert browser.get("/").status_code == 303


@pytest.mark.parametrize("pending", [None, [], ["0199c0a8-0000-7000-8000-000000000000", "", 2**40]])
def test_second_step_requires_first_step(browser_as, pending):
    browser = browser_as()
    if pending:
        with browser.session_transaction() as cookie:
            cookie["half"] = pending
    for method in ("GET", "POST"):
        assert (
            browser.open(STEP_PATH, method=method, data={"code": "123456"}).headers["Location"].startswith("/sign-in")
        )
    assert browser.post(f"{STEP_PATH}/passkey", data={"credential": "{}"}).headers["Location"].startswith("/sign-in")


def test_second_step_codes_are_rate_limited(browser_as, sign_in, cast, totp_recovery_codes, totp_code):
    browser = browser_as()
    sign_in(browser)
    wrong = {"code": "000000" if totp_code(cast.owner) != "000000" else "111111"}
    assert [browser.post(STEP_PATH, data=wrong).status_code for _ in range(6)] == [422] * 5 + [429]
    refused = browser.post(STEP_PATH, data={"code": totp_code(cast.owner)})
    assert refused.status_code == 429
    assert 0 < int(refused.headers["Retry-After"]) <= 60
    other = browser_as()
    sign_in(other)
    assert other.post(STEP_PATH, data={"code": totp_code(cast.owner)}).status_code == 429
    assert other.get("/").status_code == 303


def test_daily_code_limit_does_not_lock_out_owner(
    browser_as, sign_in, cast, totp_recovery_codes, totp_code, advance_time
):
    """An attacker who knows the password guesses codes for hours. The owner's known browser and recovery codes work."""
    known_browser = browser_as()
    sign_in(known_browser)
    assert known_browser.post(STEP_PATH, data={"code": totp_code(cast.owner)}).status_code == 303
    known_browser.post("/sign-out")
    connect_rate_limits("")
    attacker = browser_as()
    attacker.environ_base |= {"REMOTE_ADDR": "203.0.113.6"}
    sign_in(attacker)
    wrong, answers = {"code": totp_code(cast.owner)}, []
    for _ in range(12):
        answers += [attacker.post(STEP_PATH, data=wrong).status_code for _ in range(5)]
        advance_time(125)
    assert answers == [422] * 50 + [429] * 10
    sign_in(known_browser)
    assert known_browser.post(STEP_PATH, data={"code": totp_code(cast.owner, 1)}).status_code == 303
    elsewhere = browser_as()
    sign_in(elsewhere)
    assert elsewhere.post(STEP_PATH, data={"code": totp_recovery_codes[0]}).status_code == 303


def test_totp_secret_and_recovery_codes_are_protected_in_database(cast, totp_recovery_codes):
    stored = session.scalar(text("select totp_secret from accounts where email = 'owner@example.com'"))
    assert cast.owner.totp_secret not in stored
    hashes = session.scalars(select(RecoveryCode.secret_hash)).all()
    assert len(hashes) == 10
    assert not {code.replace("-", "") for code in totp_recovery_codes} & set(hashes)
