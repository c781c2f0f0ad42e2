"""Own security by program: the profile routes of the user API."""

import json

import pyotp
import pytest
from sqlalchemy import select

from panel.core.db import session
from panel.models import Passkey, SignIn
from panel.services import accounts, factors, sessions, tokens
from tests.login.authenticator import Authenticator
from tests.support.cast import PASSWORD

NEW = "another long password"


def test_set_up_two_factor_authentication_and_turn_it_off(as_, cast, code, mails):
    begun = as_("owner", "POST", "/api/profile/2fa/enable")
    assert begun.status_code == 200
    assert begun.json["success"] is True
    assert begun.json["secret"] == cast.owner.totp_secret
    assert pyotp.parse_uri(begun.json["otpauth_url"]).secret == begun.json["secret"]
    assert begun.json["qr_code"].startswith("data:image/svg+xml")
    wrong = as_("owner", "POST", "/api/profile/2fa/confirm", json={"code": "12345"})
    assert (wrong.status_code, list(wrong.json["errors"])) == (422, ["code"])
    assert cast.owner.two_factor_at is None
    done = as_("owner", "POST", "/api/profile/2fa/confirm", json={"code": code(cast.owner)})
    assert done.status_code == 200
    assert len(done.json["recovery_codes"]) == 10
    assert as_("owner", "POST", "/api/profile/2fa/enable").json["reason"] == "two_factor_enabled"
    refused = as_("owner", "POST", "/api/profile/2fa/disable", json={"password": "wrong"})
    assert (refused.status_code, list(refused.json["errors"])) == (422, ["password"])
    assert as_("owner", "POST", "/api/profile/2fa/disable", json={"password": PASSWORD}).status_code == 200
    assert cast.owner.two_factor_at is None
    again = as_("owner", "POST", "/api/profile/2fa/disable", json={"password": PASSWORD})
    assert (again.status_code, again.json["reason"]) == (409, "two_factor_disabled")


def test_a_code_without_a_beginning(as_):
    answer = as_("owner", "POST", "/api/profile/2fa/confirm", json={"code": "123456"})
    assert (answer.status_code, answer.json["reason"]) == (409, "two_factor_not_begun")


def test_new_recovery_codes(as_, cast, with_totp):
    answer = as_("owner", "POST", "/api/profile/2fa/recovery-codes", json={"password": PASSWORD})
    assert len(answer.json["recovery_codes"]) == 10
    assert not set(answer.json["recovery_codes"]) & set(with_totp)


def test_change_the_password(as_, browse, cast):
    browser = browse("owner")
    address, sent = "/api/profile/password", {"current_password": PASSWORD, "new_password": NEW}
    refused = as_("owner", "POST", address, json=sent | {"current_password": "wrong"})
    assert (refused.status_code, list(refused.json["errors"])) == (422, ["current_password"])
    assert as_("owner", "POST", address, json=sent | {"new_password": "short"}).status_code == 422
    assert as_("owner", "POST", address, json=sent).status_code == 200
    assert accounts.check_password("owner@example.com", NEW)
    assert browser.get("/").status_code == 303
    assert as_("owner", "GET", "/api/connect").status_code == 200


def test_a_member_changes_its_own_and_not_the_owners(as_, cast):
    sent = {"current_password": PASSWORD, "new_password": NEW}
    accounts.set_password(cast.viewer, PASSWORD)
    session.commit()
    assert as_("viewer", "POST", "/api/profile/password", json=sent).status_code == 200
    assert accounts.check_password(cast.viewer.email, NEW)
    assert accounts.check_password(cast.owner.email, PASSWORD)


def test_the_scope_of_the_token_is_needed(as_, cast, world):
    """IDT-27."""
    value = tokens.issue("user", name="reader", account=cast.owner, scopes=["account:read"])[1]
    session.commit()
    cast.tokens["reader"] = value
    headers = {"Authorization": f"Bearer {value}"}
    answer = world.test_client().post("/api/profile/2fa/enable", headers=headers)
    assert answer.status_code == 403
    assert "account:write" in answer.json["message"]
    assert world.test_client().get("/api/profile/sessions", headers=headers).status_code == 200


def test_add_list_and_remove_a_passkey(as_, cast, browse):
    device = Authenticator()
    asked = as_("owner", "POST", "/api/profile/passkeys/options", json={"password": PASSWORD}).json
    sent = {"name": "Robot", "credential": json.loads(device.create(asked["options"])), "state": asked["state"]}
    assert as_("outsider", "POST", "/api/profile/passkeys", json=sent).status_code == 422
    made = as_("owner", "POST", "/api/profile/passkeys", json=sent)
    assert (made.status_code, len(made.json["recovery_codes"])) == (200, 10)
    (row,) = as_("owner", "GET", "/api/profile/passkeys").json["data"]
    assert row["name"] == "Robot"
    assert as_("outsider", "GET", "/api/profile/passkeys").json["data"] == []
    address = f"/api/profile/passkey/{row['id']}"
    assert as_("outsider", "DELETE", address, json={"password": PASSWORD}).status_code == 404
    assert as_("owner", "DELETE", address, json={"password": "wrong"}).status_code == 422
    assert as_("owner", "DELETE", address, json={"password": PASSWORD}).status_code == 200
    assert session.scalars(select(Passkey)).all() == []


@pytest.mark.parametrize("state", ["x", "gAAAAABp", "", 5])
def test_a_state_that_is_not_ours(as_, state):
    sent = {"name": "x", "credential": {"id": "x"}, "state": state}
    assert as_("owner", "POST", "/api/profile/passkeys", json=sent).status_code == 422


def test_options_are_for_who_knows_the_password(as_):
    answer = as_("owner", "POST", "/api/profile/passkeys/options", json={"password": "wrong"})
    assert (answer.status_code, answer.json["errors"]) == (422, {"password": ["This is not your password."]})


def test_list_and_end_sessions(as_, browse, cast):
    browser = browse("owner")
    browse("outsider")
    (row,) = as_("owner", "GET", "/api/profile/sessions").json["data"]
    assert (row["ip"], row["user_agent"]) == ("127.0.0.1", "test")
    address = f"/api/profile/session/{row['id']}"
    assert as_("outsider", "DELETE", address).status_code == 404
    assert browser.get("/").status_code == 200
    assert as_("owner", "DELETE", address).status_code == 200
    assert browser.get("/").status_code == 303
    assert as_("owner", "DELETE", address).status_code == 404


def test_an_operator_who_acts_as_somebody_changes_no_security(cast, world):
    value = tokens.issue(
        "impersonation",
        name="support",
        account=cast.owner,
        scopes=["account:write", "account:read"],
        issued_by="admin@x",
    )[1]
    sessions.start(cast.owner, ip="127.0.0.1", user_agent="test")
    session.commit()
    kept = session.scalars(select(SignIn)).one()
    for method, path, sent in (
        ("POST", "password", {"current_password": PASSWORD, "new_password": NEW}),
        ("POST", "2fa/enable", None),
        ("POST", "2fa/disable", {"password": PASSWORD}),
        ("POST", "passkeys/options", {"password": PASSWORD}),
        ("DELETE", f"session/{kept.id}", None),
    ):
        headers = {"Authorization": f"Bearer {value}"}
        answer = world.test_client().open(f"/api/profile/{path}", method=method, json=sent, headers=headers)
        assert answer.status_code == 403, path
        assert "It stays with the person" in answer.json["message"]
    assert accounts.check_password(cast.owner.email, PASSWORD)


def test_guessing_the_password_is_throttled(as_):
    answers = [as_("owner", "POST", "/api/profile/2fa/disable", json={"password": "x"}) for _ in range(11)]
    assert [answer.status_code for answer in answers] == [422] * 10 + [429]
    assert answers[-1].headers["Retry-After"]


def test_two_factor_stays_off_until_a_code_was_right(as_, cast):
    as_("owner", "POST", "/api/profile/2fa/enable")
    assert not factors.any_of(cast.owner)
