"""Account security: the profile routes of the user API."""

import json

import pyotp
import pytest
from sqlalchemy import select

from panel.core.db import session
from panel.models import LoginSession, Passkey
from panel.services import accounts, factors, sessions, tokens
from tests.login.authenticator import Authenticator
from tests.support.cast import PASSWORD

NEW_PASSWORD = "another long password"


def test_two_factor_is_enabled_and_disabled(api_as, cast, totp_code, sent_mails):
    setup = api_as("owner", "POST", "/api/profile/2fa/enable")
    assert setup.status_code == 200
    assert setup.json["success"] is True
    assert setup.json["secret"] == cast.owner.totp_secret
    assert pyotp.parse_uri(setup.json["otpauth_url"]).secret == setup.json["secret"]
    assert setup.json["qr_code"].startswith("data:image/svg+xml")
    wrong = api_as("owner", "POST", "/api/profile/2fa/confirm", json={"code": "12345"})
    assert (wrong.status_code, list(wrong.json["errors"])) == (422, ["code"])
    assert cast.owner.two_factor_at is None
    done = api_as("owner", "POST", "/api/profile/2fa/confirm", json={"code": totp_code(cast.owner)})
    assert done.status_code == 200
    assert len(done.json["recovery_codes"]) == 10
    assert api_as("owner", "POST", "/api/profile/2fa/enable").json["reason"] == "two_factor_enabled"
    refused = api_as("owner", "POST", "/api/profile/2fa/disable", json={"password": "wrong"})
    assert (refused.status_code, list(refused.json["errors"])) == (422, ["password"])
    assert api_as("owner", "POST", "/api/profile/2fa/disable", json={"password": PASSWORD}).status_code == 200
    assert cast.owner.two_factor_at is None
    again = api_as("owner", "POST", "/api/profile/2fa/disable", json={"password": PASSWORD})
    assert (again.status_code, again.json["reason"]) == (409, "two_factor_disabled")


def test_two_factor_confirm_requires_setup(api_as):
    answer = api_as("owner", "POST", "/api/profile/2fa/confirm", json={"code": "123456"})
    assert (answer.status_code, answer.json["reason"]) == (409, "two_factor_not_begun")


def test_new_recovery_codes_replace_old_ones(api_as, cast, totp_recovery_codes):
    answer = api_as("owner", "POST", "/api/profile/2fa/recovery-codes", json={"password": PASSWORD})
    assert len(answer.json["recovery_codes"]) == 10
    assert not set(answer.json["recovery_codes"]) & set(totp_recovery_codes)


def test_password_change_ends_browser_sessions(api_as, browser_as, cast):
    browser = browser_as("owner")
    address, sent = "/api/profile/password", {"current_password": PASSWORD, "new_password": NEW_PASSWORD}
    refused = api_as("owner", "POST", address, json=sent | {"current_password": "wrong"})
    assert (refused.status_code, list(refused.json["errors"])) == (422, ["current_password"])
    assert api_as("owner", "POST", address, json=sent | {"new_password": "short"}).status_code == 422
    assert api_as("owner", "POST", address, json=sent).status_code == 200
    assert accounts.authenticate("owner@example.com", NEW_PASSWORD)
    assert browser.get("/").status_code == 303
    assert api_as("owner", "GET", "/api/connect").status_code == 200


def test_member_changes_only_own_password(api_as, cast):
    sent = {"current_password": PASSWORD, "new_password": NEW_PASSWORD}
    accounts.set_password(cast.viewer, PASSWORD)
    session.commit()
    assert api_as("viewer", "POST", "/api/profile/password", json=sent).status_code == 200
    assert accounts.authenticate(cast.viewer.email, NEW_PASSWORD)
    assert accounts.authenticate(cast.owner.email, PASSWORD)


def test_two_factor_setup_requires_token_scope(api_as, cast, rolled_back_app):
    """IDT-27."""
    value = tokens.issue("user", name="reader", account=cast.owner, scopes=["account:read"])[1]
    session.commit()
    cast.tokens["reader"] = value
    headers = {"Authorization": f"Bearer {value}"}
    answer = rolled_back_app.test_client().post("/api/profile/2fa/enable", headers=headers)
    assert answer.status_code == 403
    assert "account:write" in answer.json["message"]
    assert rolled_back_app.test_client().get("/api/profile/sessions", headers=headers).status_code == 200


def test_passkey_is_added_listed_and_deleted(api_as, cast, browser_as):
    device = Authenticator()
    start = api_as("owner", "POST", "/api/profile/passkeys/options", json={"password": PASSWORD}).json
    sent = {"name": "Robot", "credential": json.loads(device.create(start["options"])), "state": start["state"]}
    assert api_as("outsider", "POST", "/api/profile/passkeys", json=sent).status_code == 422
    created = api_as("owner", "POST", "/api/profile/passkeys", json=sent)
    assert (created.status_code, len(created.json["recovery_codes"])) == (200, 10)
    (row,) = api_as("owner", "GET", "/api/profile/passkeys").json["data"]
    assert row["name"] == "Robot"
    assert api_as("outsider", "GET", "/api/profile/passkeys").json["data"] == []
    address = f"/api/profile/passkey/{row['id']}"
    assert api_as("outsider", "DELETE", address, json={"password": PASSWORD}).status_code == 404
    assert api_as("owner", "DELETE", address, json={"password": "wrong"}).status_code == 422
    assert api_as("owner", "DELETE", address, json={"password": PASSWORD}).status_code == 200
    assert session.scalars(select(Passkey)).all() == []


@pytest.mark.parametrize("state", ["x", "gAAAAABp", "", 5])
def test_passkey_registration_rejects_invalid_state(api_as, state):
    sent = {"name": "x", "credential": {"id": "x"}, "state": state}
    assert api_as("owner", "POST", "/api/profile/passkeys", json=sent).status_code == 422


def test_passkey_options_require_password(api_as):
    answer = api_as("owner", "POST", "/api/profile/passkeys/options", json={"password": "wrong"})
    assert (answer.status_code, answer.json["errors"]) == (422, {"password": ["This is not your password."]})


def test_sessions_are_listed_and_ended(api_as, browser_as, cast):
    browser = browser_as("owner")
    browser_as("outsider")
    (row,) = api_as("owner", "GET", "/api/profile/sessions").json["data"]
    assert (row["ip"], row["user_agent"]) == ("127.0.0.1", "test")
    address = f"/api/profile/session/{row['id']}"
    assert api_as("outsider", "DELETE", address).status_code == 404
    assert browser.get("/").status_code == 200
    assert api_as("owner", "DELETE", address).status_code == 200
    assert browser.get("/").status_code == 303
    assert api_as("owner", "DELETE", address).status_code == 404


def test_impersonation_token_cannot_change_security_settings(cast, rolled_back_app):
    value = tokens.issue(
        "impersonation",
        name="support",
        account=cast.owner,
        scopes=["account:write", "account:read"],
        issued_by="admin@x",
    )[1]
    sessions.start(cast.owner, ip="127.0.0.1", user_agent="test")
    session.commit()
    login_session = session.scalars(select(LoginSession)).one()
    for method, path, sent in (
        ("POST", "password", {"current_password": PASSWORD, "new_password": NEW_PASSWORD}),
        ("POST", "2fa/enable", None),
        ("POST", "2fa/disable", {"password": PASSWORD}),
        ("POST", "passkeys/options", {"password": PASSWORD}),
        ("DELETE", f"session/{login_session.id}", None),
    ):
        headers = {"Authorization": f"Bearer {value}"}
        answer = rolled_back_app.test_client().open(f"/api/profile/{path}", method=method, json=sent, headers=headers)
        assert answer.status_code == 403, path
        assert "while acting as another person" in answer.json["message"]
    assert accounts.authenticate(cast.owner.email, PASSWORD)


def test_password_confirmation_is_rate_limited(api_as):
    answers = [api_as("owner", "POST", "/api/profile/2fa/disable", json={"password": "x"}) for _ in range(11)]
    assert [answer.status_code for answer in answers] == [422] * 10 + [429]
    assert answers[-1].headers["Retry-After"]


def test_two_factor_is_off_until_confirmed(api_as, cast):
    api_as("owner", "POST", "/api/profile/2fa/enable")
    assert not factors.has_second_factor(cast.owner)
