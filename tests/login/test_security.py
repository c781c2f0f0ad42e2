"""The security page of the profile, and its subpages."""

import re
from datetime import timedelta

import pytest
from sqlalchemy import select

from panel.core import clock, context
from panel.core.db import session
from panel.models import LoginSession, RecoveryCode
from panel.services import accounts, factors, sessions, settings
from tests.support.cast import PASSWORD

OWN_PASSWORD_FORM = {"password": PASSWORD}
NEW_PASSWORD = "another long password"


def read_subjects(mails, to="owner@example.com"):
    return [mail["Subject"] for mail in mails(to)]


def test_password_change_ends_other_sessions(browser_as, cast, sent_mails):
    other, own_browser = browser_as("owner"), browser_as("owner")
    answer = own_browser.post(
        "/profile/password", data={"current": PASSWORD, "new": NEW_PASSWORD, "again": NEW_PASSWORD}
    )
    assert answer.status_code == 303
    assert own_browser.get("/profile/security").status_code == 200
    assert other.get("/profile/security").status_code == 303
    assert accounts.authenticate(cast.owner.email, NEW_PASSWORD)
    assert accounts.authenticate(cast.owner.email, PASSWORD) is None
    assert read_subjects(sent_mails) == ["Your password was changed"]


def test_password_change_rejects_invalid_input(browser_as, cast):
    for current, new, again, message in (
        ("wrong", NEW_PASSWORD, NEW_PASSWORD, "This is not your password."),
        (PASSWORD, "short", "short", "Length must be between 12 and 1024."),
        (PASSWORD, NEW_PASSWORD, NEW_PASSWORD + "x", "The passwords do not match."),
    ):
        answer = browser_as("owner").post("/profile/password", data={"current": current, "new": new, "again": again})
        assert answer.status_code == 422
        assert message in answer.text
        assert NEW_PASSWORD not in answer.text
    assert accounts.authenticate(cast.owner.email, PASSWORD)


def test_account_without_password_is_referred_to_reset(browser_as, cast):
    cast.owner.password_hash = None
    session.commit()
    browser = browser_as("owner")
    assert "You have no password yet" in browser.get("/profile/security").text
    answer = browser.post("/profile/password", data={"current": "x", "new": NEW_PASSWORD, "again": NEW_PASSWORD})
    assert answer.status_code == 422
    assert "Forgot your password?" in answer.text


def test_security_page_ends_sessions(browser_as, cast):
    first, second, own_browser = browser_as("owner"), browser_as("owner"), browser_as("owner")
    outsider = browser_as("outsider")
    rows = session.scalars(
        select(LoginSession).where(LoginSession.account_id == cast.owner.id).order_by(LoginSession.id)
    ).all()
    page = own_browser.get("/profile/security").text
    assert page.count("Another program") == 3
    assert page.count("This browser") == 1
    assert page.count("127.0.0.1") == 3
    assert own_browser.post(f"/profile/sessions/{rows[0].id}/end").status_code == 303
    assert (first.get("/").status_code, second.get("/").status_code) == (303, 200)
    outsider.post(f"/profile/sessions/{rows[1].id}/end")
    assert second.get("/").status_code == 200
    own_browser.post("/profile/sessions/end-others")
    assert (second.get("/").status_code, own_browser.get("/").status_code) == (303, 200)
    assert outsider.get("/").status_code == 200


def test_totp_setup_creates_recovery_codes(browser_as, cast, totp_code, sent_mails):
    browser = browser_as("owner")
    assert browser.get("/profile/two-factor").status_code == 303
    assert browser.post("/profile/two-factor/begin", data={"password": "wrong"}).status_code == 422
    assert cast.owner.totp_secret is None
    assert (
        browser.post("/profile/two-factor/begin", data=OWN_PASSWORD_FORM).headers["Location"] == "/profile/two-factor"
    )
    page = browser.get("/profile/two-factor").text
    assert cast.owner.totp_secret in page
    assert 'src="data:image/svg+xml' in page
    wrong = browser.post("/profile/two-factor/confirm", data={"code": "12345"})
    assert wrong.status_code == 422
    assert cast.owner.two_factor_at is None
    assert cast.owner.totp_secret in wrong.text
    answer = browser.post("/profile/two-factor/confirm", data={"code": totp_code(cast.owner)})
    assert answer.headers["Location"] == "/profile/recovery-codes"
    assert cast.owner.two_factor_at
    codes = re.findall(r"<li><code>([a-z2-9-]{19})</code>", browser.get("/profile/recovery-codes").text)
    assert len(set(codes)) == 10
    assert browser.get("/profile/recovery-codes").status_code == 303
    page = browser.get("/profile/security").text
    assert "10 left" in page
    assert cast.owner.totp_secret not in page
    assert browser.get("/profile/two-factor").status_code == 303
    assert read_subjects(sent_mails) == ["Two-factor authentication was turned on"]


def test_unconfirmed_totp_is_not_required_at_sign_in(browser_as, sign_in, cast):
    browser_as("owner").post("/profile/two-factor/begin", data=OWN_PASSWORD_FORM)
    assert sign_in(browser_as()).headers["Location"] == "/"


def test_enabled_totp_setup_cannot_be_restarted(browser_as, cast, totp_recovery_codes):
    secret = cast.owner.totp_secret
    answer = browser_as("owner").post("/profile/two-factor/begin", data=OWN_PASSWORD_FORM)
    assert answer.status_code == 409
    assert cast.owner.totp_secret == secret


def test_totp_is_disabled_with_password(browser_as, sign_in, cast, totp_recovery_codes, sent_mails):
    browser = browser_as("owner")
    assert browser.get("/profile/two-factor/disable").status_code == 200
    assert browser.post("/profile/two-factor/disable", data={"password": "wrong"}).status_code == 422
    assert cast.owner.two_factor_at
    assert browser.post("/profile/two-factor/disable", data={"password": PASSWORD}).status_code == 303
    assert (cast.owner.totp_secret, cast.owner.two_factor_at) == (None, None)
    assert session.scalars(select(RecoveryCode)).all() == []
    assert sign_in(browser_as()).headers["Location"] == "/"
    assert read_subjects(sent_mails)[-2:] == [
        "Two-factor authentication was turned on",
        "Two-factor authentication was turned off",
    ]


def test_new_recovery_codes_replace_old_ones(browser_as, cast, totp_recovery_codes, sent_mails):
    browser = browser_as("owner")
    assert browser.post("/profile/recovery-codes/new", data={"password": "wrong"}).status_code == 422
    answer = browser.post("/profile/recovery-codes/new", data={"password": PASSWORD})
    assert answer.headers["Location"] == "/profile/recovery-codes"
    assert totp_recovery_codes[0] not in browser.get("/profile/recovery-codes").text
    assert not factors.use_recovery_code(cast.owner, totp_recovery_codes[0].replace("-", ""))
    assert factors.count_codes(cast.owner) == 10
    assert read_subjects(sent_mails)[-1] == "New recovery codes were created"


def test_recovery_codes_require_second_factor(browser_as):
    answer = browser_as("owner").post("/profile/recovery-codes/new", data={"password": PASSWORD})
    assert answer.status_code == 409
    assert "Set one up first" in answer.text


@pytest.mark.parametrize("caller", ["member", "viewer", "admin", "outsider"])
def test_security_page_requires_no_role_permission(browser_as, cast, caller):
    """Members with few permissions must be able to set up a required second factor."""
    browser = browser_as(caller)
    assert browser.get("/profile/security").status_code == 200
    assert browser.post("/profile/two-factor/begin", data=OWN_PASSWORD_FORM).status_code == 303
    assert browser.get("/profile/two-factor").status_code == 200


def test_suspended_user_sees_reason_and_can_use_security_page(browser_as, sign_in, cast):
    cast.owner.suspended_at, cast.owner.suspended_reason = clock.now(), "The invoice of May <was> not paid."
    session.commit()
    browser = browser_as()
    assert sign_in(browser).headers["Location"] == "/"
    assert "The invoice of May &lt;was&gt; not paid." in browser.get("/").text
    assert browser.get("/profile/security").status_code == 200
    assert browser.post("/instances/new", data={}).status_code == 403


def require_second_factor(setting):
    settings.update({"require_second_factor": setting})
    session.commit()


@pytest.mark.parametrize(
    ("setting", "caller", "is_blocked"),
    [
        ("nobody", "admin", False),
        ("operators", "admin", True),
        ("operators", "owner", False),
        ("everybody", "owner", True),
        ("everybody", "viewer", True),
    ],
)
def test_operators_can_require_second_factor(browser_as, cast, setting, caller, is_blocked):
    require_second_factor(setting)
    browser = browser_as(caller)
    for address in ("/", "/instances", "/ssh-keys", "/search"):
        answer = browser.get(address)
        assert answer.status_code == (303 if is_blocked else 200)
        assert not is_blocked or answer.headers["Location"] == "/profile/security"
    assert ("Set up two-factor authentication to continue" in browser.get("/profile/security").text) == is_blocked
    assert browser.get("/profile").status_code == 200
    assert browser.post("/sign-out").status_code == 303


def test_required_second_factor_setup_unlocks_pages(browser_as, cast, totp_code):
    require_second_factor("everybody")
    browser = browser_as("owner")
    assert browser.post("/instances/new").headers["Location"] == "/profile/security"
    partial = browser.get("/tasks", headers={"HX-Request": "true", "HX-Request-Type": "partial"})
    assert partial.status_code == 403
    assert "HX-Redirect" not in partial.headers
    browser.post("/profile/two-factor/begin", data=OWN_PASSWORD_FORM)
    assert browser.get("/").status_code == 303
    browser.post("/profile/two-factor/confirm", data={"code": totp_code(cast.owner)})
    assert browser.get("/").status_code == 200


def test_passkey_satisfies_required_second_factor(browser_as, cast, passkey):
    require_second_factor("everybody")
    assert browser_as("owner").get("/").status_code == 200


def test_page_impersonation_cannot_change_security_settings(browser_as, cast, passkey):
    factors.start_setup(cast.owner)
    secret = sessions.start(cast.owner, ip="127.0.0.1", user_agent="test", impersonator=cast.admin)
    session.commit()
    browser = browser_as()
    with browser.session_transaction() as cookie:
        cookie["_user_id"] = secret
    page = browser.get("/profile/security")
    assert page.status_code == 200
    assert cast.owner.totp_secret not in page.text
    assert browser.get("/profile/two-factor").status_code == 403
    for address in ("password", "two-factor/begin", "two-factor/confirm", "recovery-codes/new", "passkeys/options"):
        sent = {"password": PASSWORD, "current": PASSWORD, "new": NEW_PASSWORD, "again": NEW_PASSWORD, "name": "x"}
        assert browser.post(f"/profile/{address}", data=sent).status_code == 403, address
    assert browser.post("/profile/sessions/end-others").status_code == 403
    require_second_factor("everybody")
    assert browser.get("/").status_code == 200


def test_impersonation_session_is_hidden_from_customer(browser_as, cast):
    sessions.start(cast.owner, ip="198.51.100.7", user_agent="operator", impersonator=cast.admin)
    session.commit()
    assert "198.51.100.7" not in browser_as("owner").get("/profile/security").text


class FakeRedis:
    """The Redis commands that record when a session was last seen."""

    def __init__(self):
        self.fields = {}

    def set(self, name, value):
        """Ignore the version key of the token cache."""

    def hset(self, name, key, value):
        self.fields[key.encode()] = value.encode()

    def hgetall(self, name):
        return dict(self.fields)

    def hdel(self, name, *keys):
        for key in keys:
            del self.fields[key]


def test_session_last_seen_is_recorded_every_few_minutes(browser_as, cast, monkeypatch, advance_clock):
    monkeypatch.setattr(context.current(), "redis", FakeRedis())
    browser = browser_as("owner")
    row = session.scalars(select(LoginSession)).one()
    last_seen_before = row.last_seen_at
    recorded = context.current().redis.fields
    browser.get("/")
    assert recorded == {}
    advance_clock(minutes=6)
    browser.get("/")
    first = dict(recorded)
    advance_clock(minutes=1)
    browser.get("/")
    assert list(first) == [row.id.encode()]
    assert recorded == first
    sessions.write_last_seen()
    session.commit()
    session.expire_all()
    assert row.last_seen_at - last_seen_before >= timedelta(minutes=6)
    assert recorded == {}


def test_security_page_view_writes_nothing(browser_as, queries):
    browser = browser_as("owner")
    queries.clear()
    browser.get("/profile/security")
    assert not [sql for sql in queries if sql.lower().startswith(("insert", "update", "delete"))]


def test_security_page_query_count_is_constant(browser_as, cast, queries):
    counts = []
    for count in (1, 20):
        for _ in range(count):
            sessions.start(cast.owner, ip="127.0.0.1", user_agent="x")
        session.commit()
        browser = browser_as("owner")
        queries.clear()
        browser.get("/profile/security")
        counts.append(len(queries))
    assert counts[0] == counts[1]
