"""Passkeys in a software authenticator: as the only factor, as the second step, and rejected assertions."""

import json

import pytest
from sqlalchemy import select

from panel.core.db import session
from panel.models import LoginSession, Passkey
from panel.services import factors, passkeys
from tests.login.authenticator import FLAG_USER_VERIFIED, Authenticator
from tests.login.passkeys import add_passkey
from tests.support.cast import PASSWORD

OPTIONS_PATH = "/sign-in/passkey/options"


def is_signed_in(answer):
    """Return whether the sign-in was completed. Otherwise the answer redirects to the sign-in page."""
    assert answer.status_code == 303
    return not answer.headers["Location"].startswith("/sign-in")


def sign_in_by_passkey(browser, device, address="/sign-in/passkey"):
    return browser.post(address, data={"credential": device.get(browser.post(OPTIONS_PATH).json)})


def test_passkey_alone_completes_sign_in(browser_as, cast, passkey, totp_recovery_codes):
    browser = browser_as()
    answer = sign_in_by_passkey(browser, passkey, "/sign-in/passkey?next=/instances")
    assert answer.headers["Location"] == "/instances"
    assert browser.get("/profile/security").status_code == 200
    row = session.scalars(select(Passkey)).one()
    assert (row.account_id, row.sign_count) == (cast.owner.id, 1)
    assert row.last_used_at


def test_password_sign_in_requires_registered_passkey(browser_as, sign_in, passkey):
    browser = browser_as()
    assert sign_in(browser).headers["Location"].startswith("/sign-in/second-step")
    assert browser.get("/").status_code == 303
    page = browser.get("/sign-in/second-step").text
    assert "Use a passkey" in page
    assert "Recovery code" in page
    options = browser.post(f"{OPTIONS_PATH}?second=1").json
    assert [entry["id"] for entry in options["allowCredentials"]] == [json.loads(passkey.encode_credential({}))["id"]]
    assert options["userVerification"] == "required"
    answer = browser.post("/sign-in/second-step/passkey", data={"credential": passkey.get(options)})
    assert answer.headers["Location"] == "/"
    assert browser.get("/").status_code == 200


def test_foreign_passkey_is_rejected_as_second_step(browser_as, sign_in, passkey):
    foreign_passkey = add_passkey(browser_as("outsider"))
    browser = browser_as()
    sign_in(browser)
    options = browser.post(f"{OPTIONS_PATH}?second=1").json
    answer = browser.post("/sign-in/second-step/passkey", data={"credential": foreign_passkey.get(options)})
    assert not is_signed_in(answer)
    assert passkeys.PASSKEY_REFUSED_MESSAGE in browser.get("/sign-in/second-step").text
    assert browser.get("/").status_code == 303


def test_recovery_codes_are_created_with_first_factor_only(browser_as, cast):
    browser = browser_as("owner")
    add_passkey(browser)
    assert browser.get("/profile/recovery-codes").text.count("<li><code>") == 10
    assert browser.get("/profile/recovery-codes").status_code == 303
    add_passkey(browser, name="Phone")
    assert browser.get("/profile/recovery-codes").status_code == 303
    assert factors.count_codes(cast.owner) == 10


def test_passkey_assertion_cannot_be_replayed(browser_as, passkey, advance_clock):
    browser = browser_as()
    assertion = passkey.get(browser.post(OPTIONS_PATH).json)
    cookie = browser.get_cookie("panel").value
    advance_clock(seconds=1)
    assert is_signed_in(browser.post("/sign-in/passkey", data={"credential": assertion}))
    attacker = browser_as()
    attacker.set_cookie("panel", cookie)
    assert not is_signed_in(attacker.post("/sign-in/passkey", data={"credential": assertion}))
    assert attacker.get("/").status_code == 303


def test_passkey_challenge_is_bound_to_purpose_and_expires(browser_as, sign_in, passkey, advance_clock):
    browser = browser_as()
    sign_in(browser)
    second = passkey.get(browser.post(f"{OPTIONS_PATH}?second=1").json)
    assert not is_signed_in(browser.post("/sign-in/passkey", data={"credential": second}))
    assertion = passkey.get(browser.post(OPTIONS_PATH).json)
    advance_clock(minutes=6)
    assert not is_signed_in(browser.post("/sign-in/passkey", data={"credential": assertion}))
    assert not is_signed_in(browser.post("/sign-in/passkey", data={"credential": assertion}))
    assert session.scalars(select(LoginSession).where(LoginSession.user_agent != "test")).all() == []


def test_passkey_assertion_for_other_origin_is_rejected(browser_as, passkey):
    passkey.origin = "http://localhost.evil.example:8000"
    assert not is_signed_in(sign_in_by_passkey(browser_as(), passkey))
    passkey.origin = "https://localhost:8000"
    assert not is_signed_in(sign_in_by_passkey(browser_as(), passkey))


def test_passkey_assertion_requires_user_verification(browser_as, passkey):
    passkey.flags &= ~FLAG_USER_VERIFIED
    assert not is_signed_in(sign_in_by_passkey(browser_as(), passkey))


def test_passkey_with_lower_sign_count_is_rejected(browser_as, passkey):
    passkey.count = 10
    assert is_signed_in(sign_in_by_passkey(browser_as(), passkey))
    passkey.count = 3
    assert not is_signed_in(sign_in_by_passkey(browser_as(), passkey))


def test_passkey_with_other_key_is_rejected(browser_as, passkey):
    other = Authenticator()
    other.id = passkey.id
    assert not is_signed_in(sign_in_by_passkey(browser_as(), other))


@pytest.mark.parametrize("sent", ["{}", "nothing", "[]", "null", '{"id": 5}', '{"id": "x", "response": {}}', ""])
def test_malformed_passkey_assertion_is_rejected(browser_as, passkey, sent):
    browser = browser_as()
    browser.post(OPTIONS_PATH)
    assert not is_signed_in(browser.post("/sign-in/passkey", data={"credential": sent}))
    browser.post(OPTIONS_PATH)
    incomplete = json.loads(
        passkey.encode_credential({"clientDataJSON": "x", "authenticatorData": "!", "signature": ""})
    )
    assert not is_signed_in(browser.post("/sign-in/passkey", data={"credential": json.dumps(incomplete)}))


def test_passkey_registration_requires_password(browser_as, cast):
    browser = browser_as("owner")
    refused = browser.post("/profile/passkeys/options", data={"name": "Laptop", "password": "wrong"})
    assert "This is not your password." in refused.json["problem"]
    device = Authenticator()
    options = browser_as("outsider").post("/profile/passkeys/options", data={"name": "x", "password": PASSWORD}).json
    sent = browser.post("/profile/passkeys", data={"name": "Laptop", "credential": device.create(options)})
    assert sent.headers["Location"] == "/profile/passkeys/new"
    assert "This took too long. Try again." in browser.get("/profile/passkeys/new").text
    assert session.scalars(select(Passkey)).all() == []


def test_passkey_cannot_be_registered_twice(browser_as, passkey):
    browser = browser_as("outsider")
    options = browser.post("/profile/passkeys/options", data={"name": "Mine", "password": PASSWORD}).json
    answer = browser.post("/profile/passkeys", data={"name": "Mine", "credential": passkey.create(options)})
    assert answer.headers["Location"] == "/profile/passkeys/new"
    assert "already registered" in browser.get("/profile/passkeys/new").text


def test_passkey_page_deletes_passkey(browser_as, cast, passkey, sign_in):
    row = session.scalars(select(Passkey)).one()
    address = f"/profile/passkeys/{row.id}/remove"
    assert browser_as("outsider").get(address).status_code == 404
    assert browser_as("outsider").post(address, data={"password": PASSWORD}).status_code == 404
    browser = browser_as("owner")
    assert "Delete passkey Laptop" in browser.get(address).text
    assert browser.post(address, data={"password": "wrong"}).status_code == 422
    assert browser.post(address, data={"password": PASSWORD}).status_code == 303
    assert factors.count_codes(cast.owner) == 0
    assert not is_signed_in(sign_in_by_passkey(browser_as(), passkey))
    assert sign_in(browser_as()).headers["Location"] == "/"


def test_security_page_lists_passkey_names(browser_as):
    browser = browser_as("owner")
    assert "Sign in with your finger" in browser.get("/profile/security").text
    for name in ("Laptop", "<b>Phone</b>"):
        add_passkey(browser, name=name)
    page = browser.get("/profile/security").text
    assert "Laptop" in page
    assert "&lt;b&gt;Phone" in page


def test_passkey_attempts_are_limited_by_ip_not_account(browser_as, passkey):
    browser = browser_as()
    answers = [browser.post("/sign-in/passkey", data={"credential": "{}"}).status_code for _ in range(11)]
    assert answers == [303] * 10 + [429]
    elsewhere = browser_as()
    elsewhere.environ_base |= {"REMOTE_ADDR": "203.0.113.9"}
    assert is_signed_in(sign_in_by_passkey(elsewhere, passkey))


@pytest.mark.parametrize(
    ("public_url", "host", "origin"),
    [
        ("https://panel.example.com", "panel.example.com", "https://panel.example.com"),
        ("https://panel.example.com:8443/", "panel.example.com", "https://panel.example.com:8443"),
        ("http://127.0.0.1:8000", "localhost", "http://localhost:8000"),
        ("http://localhost:5000", "localhost", "http://localhost:5000"),
    ],
)
def test_passkey_site_follows_public_url(public_url, host, origin):
    assert passkeys.Site.from_url(public_url) == (host, origin)
