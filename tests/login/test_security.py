"""The page of one's own security, and the pages behind it."""

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


def subjects(mails, to="owner@example.com"):
    return [mail["Subject"] for mail in mails(to)]


def test_change_the_password(browser_as, cast, sent_mails):
    other, mine = browser_as("owner"), browser_as("owner")
    answer = mine.post("/profile/password", data={"current": PASSWORD, "new": NEW_PASSWORD, "again": NEW_PASSWORD})
    assert answer.status_code == 303
    assert mine.get("/profile/security").status_code == 200
    assert other.get("/profile/security").status_code == 303
    assert accounts.authenticate(cast.owner.email, NEW_PASSWORD)
    assert accounts.authenticate(cast.owner.email, PASSWORD) is None
    assert subjects(sent_mails) == ["Your password was changed"]


def test_a_password_is_not_changed(browser_as, cast):
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


def test_somebody_without_a_password_is_told_how_to_get_one(browser_as, cast):
    cast.owner.password_hash = None
    session.commit()
    browser = browser_as("owner")
    assert "You have no password yet" in browser.get("/profile/security").text
    answer = browser.post("/profile/password", data={"current": "x", "new": NEW_PASSWORD, "again": NEW_PASSWORD})
    assert answer.status_code == 422
    assert "Forgot your password?" in answer.text


def test_end_sessions(browser_as, cast):
    first, second, mine = browser_as("owner"), browser_as("owner"), browser_as("owner")
    stranger = browser_as("outsider")
    rows = session.scalars(
        select(LoginSession).where(LoginSession.account_id == cast.owner.id).order_by(LoginSession.id)
    ).all()
    shown = mine.get("/profile/security").text
    assert shown.count("Another program") == 3
    assert shown.count("This browser") == 1
    assert shown.count("127.0.0.1") == 3
    assert mine.post(f"/profile/sessions/{rows[0].id}/end").status_code == 303
    assert (first.get("/").status_code, second.get("/").status_code) == (303, 200)
    stranger.post(f"/profile/sessions/{rows[1].id}/end")
    assert second.get("/").status_code == 200
    mine.post("/profile/sessions/end-others")
    assert (second.get("/").status_code, mine.get("/").status_code) == (303, 200)
    assert stranger.get("/").status_code == 200


def test_set_up_an_authenticator(browser_as, cast, totp_code, sent_mails):
    browser = browser_as("owner")
    assert browser.get("/profile/two-factor").status_code == 303
    assert browser.post("/profile/two-factor/begin", data={"password": "wrong"}).status_code == 422
    assert cast.owner.totp_secret is None
    assert (
        browser.post("/profile/two-factor/begin", data=OWN_PASSWORD_FORM).headers["Location"] == "/profile/two-factor"
    )
    shown = browser.get("/profile/two-factor").text
    assert cast.owner.totp_secret in shown
    assert 'src="data:image/svg+xml' in shown
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
    shown = browser.get("/profile/security").text
    assert "10 left" in shown
    assert cast.owner.totp_secret not in shown
    assert browser.get("/profile/two-factor").status_code == 303
    assert subjects(sent_mails) == ["Two-factor authentication was turned on"]


def test_until_it_is_confirmed_an_authenticator_counts_for_nothing(browser_as, sign_in, cast):
    browser_as("owner").post("/profile/two-factor/begin", data=OWN_PASSWORD_FORM)
    assert sign_in(browser_as()).headers["Location"] == "/"


def test_another_begin_gives_another_secret_but_not_when_it_is_on(browser_as, cast, with_totp):
    kept = cast.owner.totp_secret
    answer = browser_as("owner").post("/profile/two-factor/begin", data=OWN_PASSWORD_FORM)
    assert answer.status_code == 409
    assert cast.owner.totp_secret == kept


def test_turn_the_authenticator_off(browser_as, sign_in, cast, with_totp, sent_mails):
    browser = browser_as("owner")
    assert browser.get("/profile/two-factor/disable").status_code == 200
    assert browser.post("/profile/two-factor/disable", data={"password": "wrong"}).status_code == 422
    assert cast.owner.two_factor_at
    assert browser.post("/profile/two-factor/disable", data={"password": PASSWORD}).status_code == 303
    assert (cast.owner.totp_secret, cast.owner.two_factor_at) == (None, None)
    assert session.scalars(select(RecoveryCode)).all() == []
    assert sign_in(browser_as()).headers["Location"] == "/"
    assert subjects(sent_mails)[-2:] == [
        "Two-factor authentication was turned on",
        "Two-factor authentication was turned off",
    ]


def test_new_recovery_codes(browser_as, cast, with_totp, sent_mails):
    browser = browser_as("owner")
    assert browser.post("/profile/recovery-codes/new", data={"password": "wrong"}).status_code == 422
    answer = browser.post("/profile/recovery-codes/new", data={"password": PASSWORD})
    assert answer.headers["Location"] == "/profile/recovery-codes"
    assert with_totp[0] not in browser.get("/profile/recovery-codes").text
    assert not factors.use_recovery_code(cast.owner, with_totp[0].replace("-", ""))
    assert factors.count_codes(cast.owner) == 10
    assert subjects(sent_mails)[-1] == "New recovery codes were created"


def test_recovery_codes_are_for_people_with_a_factor(browser_as):
    answer = browser_as("owner").post("/profile/recovery-codes/new", data={"password": PASSWORD})
    assert answer.status_code == 409
    assert "Set one up first" in answer.text


@pytest.mark.parametrize("who", ["member", "viewer", "admin", "outsider"])
def test_own_security_needs_no_permission_of_a_role(browser_as, cast, who):
    """Somebody with a role that permits next to nothing must be able to set up the factor that is asked for."""
    browser = browser_as(who)
    assert browser.get("/profile/security").status_code == 200
    assert browser.post("/profile/two-factor/begin", data=OWN_PASSWORD_FORM).status_code == 303
    assert browser.get("/profile/two-factor").status_code == 200


def test_a_suspended_person_sees_why_and_keeps_the_account_safe(browser_as, sign_in, cast):
    cast.owner.suspended_at, cast.owner.suspended_reason = clock.now(), "The invoice of May <was> not paid."
    session.commit()
    browser = browser_as()
    assert sign_in(browser).headers["Location"] == "/"
    assert "The invoice of May &lt;was&gt; not paid." in browser.get("/").text
    assert browser.get("/profile/security").status_code == 200
    assert browser.post("/instances/new", data={}).status_code == 403


def require_second_factor(wanted):
    settings.update({"require_second_factor": wanted})
    session.commit()


@pytest.mark.parametrize(
    ("wanted", "who", "shut"),
    [
        ("nobody", "admin", False),
        ("operators", "admin", True),
        ("operators", "owner", False),
        ("everybody", "owner", True),
        ("everybody", "viewer", True),
    ],
)
def test_operators_can_require_a_second_factor(browser_as, cast, wanted, who, shut):
    require_second_factor(wanted)
    browser = browser_as(who)
    for address in ("/", "/instances", "/ssh-keys", "/search"):
        answer = browser.get(address)
        assert answer.status_code == (303 if shut else 200)
        assert not shut or answer.headers["Location"] == "/profile/security"
    assert ("Set up two-factor authentication to continue" in browser.get("/profile/security").text) == shut
    assert browser.get("/profile").status_code == 200
    assert browser.post("/sign-out").status_code == 303


def test_after_setting_one_up_everything_opens(browser_as, cast, totp_code):
    require_second_factor("everybody")
    browser = browser_as("owner")
    assert browser.post("/instances/new").headers["Location"] == "/profile/security"
    part = browser.get("/tasks", headers={"HX-Request": "true", "HX-Request-Type": "partial"})
    assert part.status_code == 403
    assert "HX-Redirect" not in part.headers
    browser.post("/profile/two-factor/begin", data=OWN_PASSWORD_FORM)
    assert browser.get("/").status_code == 303
    browser.post("/profile/two-factor/confirm", data={"code": totp_code(cast.owner)})
    assert browser.get("/").status_code == 200


def test_a_passkey_is_a_second_factor_as_well(browser_as, cast, passkey):
    require_second_factor("everybody")
    assert browser_as("owner").get("/").status_code == 200


def test_an_operator_who_looks_as_a_customer_changes_no_security(browser_as, cast, passkey):
    factors.start_setup(cast.owner)
    secret = sessions.start(cast.owner, ip="127.0.0.1", user_agent="test", impersonator=cast.admin)
    session.commit()
    browser = browser_as()
    with browser.session_transaction() as cookie:
        cookie["_user_id"] = secret
    shown = browser.get("/profile/security")
    assert shown.status_code == 200
    assert cast.owner.totp_secret not in shown.text
    assert browser.get("/profile/two-factor").status_code == 403
    for address in ("password", "two-factor/begin", "two-factor/confirm", "recovery-codes/new", "passkeys/options"):
        sent = {"password": PASSWORD, "current": PASSWORD, "new": NEW_PASSWORD, "again": NEW_PASSWORD, "name": "x"}
        assert browser.post(f"/profile/{address}", data=sent).status_code == 403, address
    assert browser.post("/profile/sessions/end-others").status_code == 403
    require_second_factor("everybody")
    assert browser.get("/").status_code == 200


def test_an_operators_look_is_no_session_of_the_person(browser_as, cast):
    sessions.start(cast.owner, ip="198.51.100.7", user_agent="operator", impersonator=cast.admin)
    session.commit()
    assert "198.51.100.7" not in browser_as("owner").get("/profile/security").text


class FakeRedis:
    """The commands that noting needs."""

    def __init__(self):
        self.kept = {}

    def set(self, name, value):
        """The word that changes with what access depends on."""

    def hset(self, name, key, value):
        self.kept[key.encode()] = value.encode()

    def hgetall(self, name):
        return dict(self.kept)

    def hdel(self, name, *keys):
        for key in keys:
            del self.kept[key]


def test_when_a_session_was_last_seen_is_noted_every_few_minutes(browser_as, cast, monkeypatch, advance_clock):
    monkeypatch.setattr(context.current(), "redis", FakeRedis())
    browser = browser_as("owner")
    row = session.scalars(select(LoginSession)).one()
    began = row.last_seen_at
    waiting = context.current().redis.kept
    browser.get("/")
    assert waiting == {}
    advance_clock(minutes=6)
    browser.get("/")
    first = dict(waiting)
    advance_clock(minutes=1)
    browser.get("/")
    assert list(first) == [row.id.encode()]
    assert waiting == first
    sessions.write_last_seen()
    session.commit()
    session.expire_all()
    assert row.last_seen_at - began >= timedelta(minutes=6)
    assert waiting == {}


def test_nothing_is_written_by_looking(browser_as, queries):
    browser = browser_as("owner")
    queries.clear()
    browser.get("/profile/security")
    assert not [sql for sql in queries if sql.lower().startswith(("insert", "update", "delete"))]


def test_the_page_asks_the_same_however_many_there_are(browser_as, cast, queries):
    counts = []
    for more in (1, 20):
        for _ in range(more):
            sessions.start(cast.owner, ip="127.0.0.1", user_agent="x")
        session.commit()
        browser = browser_as("owner")
        queries.clear()
        browser.get("/profile/security")
        counts.append(len(queries))
    assert counts[0] == counts[1]
