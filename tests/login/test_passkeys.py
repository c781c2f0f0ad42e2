"""Passkeys, with a device in software: alone, as the second step, and what is refused."""

import json

import pytest
from sqlalchemy import select

from panel.core.db import session
from panel.models import LoginSession, Passkey
from panel.services import factors, passkeys
from tests.login.authenticator import Authenticator
from tests.login.conftest import add_passkey
from tests.support.cast import PASSWORD

OPTIONS = "/sign-in/passkey/options"


def is_signed_in(answer):
    """Whether the person was let in; else the page that asked says why not."""
    assert answer.status_code == 303
    return not answer.headers["Location"].startswith("/sign-in")


def sign_in_by_passkey(browser, device, address="/sign-in/passkey"):
    return browser.post(address, data={"credential": device.get(browser.post(OPTIONS).json)})


def test_a_passkey_opens_alone(browser_as, cast, passkey, with_totp):
    browser = browser_as()
    answer = sign_in_by_passkey(browser, passkey, "/sign-in/passkey?next=/instances")
    assert answer.headers["Location"] == "/instances"
    assert browser.get("/profile/security").status_code == 200
    kept = session.scalars(select(Passkey)).one()
    assert (kept.account_id, kept.sign_count) == (cast.owner.id, 1)
    assert kept.last_used_at


def test_with_a_passkey_the_password_needs_it_as_well(browser_as, sign_in, passkey):
    browser = browser_as()
    assert sign_in(browser).headers["Location"].startswith("/sign-in/second-step")
    assert browser.get("/").status_code == 303
    shown = browser.get("/sign-in/second-step").text
    assert "Use a passkey" in shown
    assert "Recovery code" in shown
    options = browser.post(f"{OPTIONS}?second=1").json
    assert [each["id"] for each in options["allowCredentials"]] == [json.loads(passkey.credential({}))["id"]]
    assert options["userVerification"] == "required"
    answer = browser.post("/sign-in/second-step/passkey", data={"credential": passkey.get(options)})
    assert answer.headers["Location"] == "/"
    assert browser.get("/").status_code == 200


def test_somebody_elses_passkey_is_no_second_step(browser_as, sign_in, passkey):
    theirs = add_passkey(browser_as("outsider"))
    browser = browser_as()
    sign_in(browser)
    options = browser.post(f"{OPTIONS}?second=1").json
    answer = browser.post("/sign-in/second-step/passkey", data={"credential": theirs.get(options)})
    assert not is_signed_in(answer)
    assert passkeys.PASSKEY_REFUSED_MESSAGE in browser.get("/sign-in/second-step").text
    assert browser.get("/").status_code == 303


def test_the_first_factor_gives_recovery_codes_and_the_next_does_not(browser_as, cast):
    browser = browser_as("owner")
    add_passkey(browser)
    assert browser.get("/profile/recovery-codes").text.count("<li><code>") == 10
    assert browser.get("/profile/recovery-codes").status_code == 303
    add_passkey(browser, name="Phone")
    assert browser.get("/profile/recovery-codes").status_code == 303
    assert factors.count_codes(cast.owner) == 10


def test_a_proof_counts_once(browser_as, passkey, advance_clock):
    browser = browser_as()
    proof = passkey.get(browser.post(OPTIONS).json)
    kept = browser.get_cookie("panel").value
    advance_clock(seconds=1)
    assert is_signed_in(browser.post("/sign-in/passkey", data={"credential": proof}))
    thief = browser_as()
    thief.set_cookie("panel", kept)
    assert not is_signed_in(thief.post("/sign-in/passkey", data={"credential": proof}))
    assert thief.get("/").status_code == 303


def test_a_challenge_is_for_one_purpose_and_five_minutes(browser_as, sign_in, passkey, advance_clock):
    browser = browser_as()
    sign_in(browser)
    second = passkey.get(browser.post(f"{OPTIONS}?second=1").json)
    assert not is_signed_in(browser.post("/sign-in/passkey", data={"credential": second}))
    proof = passkey.get(browser.post(OPTIONS).json)
    advance_clock(minutes=6)
    assert not is_signed_in(browser.post("/sign-in/passkey", data={"credential": proof}))
    assert not is_signed_in(browser.post("/sign-in/passkey", data={"credential": proof}))
    assert session.scalars(select(LoginSession).where(LoginSession.user_agent != "test")).all() == []


def test_a_proof_for_another_site_opens_nothing(browser_as, passkey):
    passkey.origin = "http://localhost.evil.example:8000"
    assert not is_signed_in(sign_in_by_passkey(browser_as(), passkey))
    passkey.origin = "https://localhost:8000"
    assert not is_signed_in(sign_in_by_passkey(browser_as(), passkey))


def test_a_proof_whose_owner_was_not_asked_opens_nothing(browser_as, passkey):
    passkey.flags &= ~0x04
    assert not is_signed_in(sign_in_by_passkey(browser_as(), passkey))


def test_a_copy_of_the_key_with_an_old_counter_opens_nothing(browser_as, passkey):
    passkey.count = 10
    assert is_signed_in(sign_in_by_passkey(browser_as(), passkey))
    passkey.count = 3
    assert not is_signed_in(sign_in_by_passkey(browser_as(), passkey))


def test_another_key_under_the_same_name_opens_nothing(browser_as, passkey):
    other = Authenticator()
    other.id = passkey.id
    assert not is_signed_in(sign_in_by_passkey(browser_as(), other))


@pytest.mark.parametrize("sent", ["{}", "nothing", "[]", "null", '{"id": 5}', '{"id": "x", "response": {}}', ""])
def test_what_is_no_proof_is_refused(browser_as, passkey, sent):
    browser = browser_as()
    browser.post(OPTIONS)
    assert not is_signed_in(browser.post("/sign-in/passkey", data={"credential": sent}))
    browser.post(OPTIONS)
    half = json.loads(passkey.credential({"clientDataJSON": "x", "authenticatorData": "!", "signature": ""}))
    assert not is_signed_in(browser.post("/sign-in/passkey", data={"credential": json.dumps(half)}))


def test_a_passkey_is_made_only_after_the_password(browser_as, cast):
    browser = browser_as("owner")
    refused = browser.post("/profile/passkeys/options", data={"name": "Laptop", "password": "wrong"})
    assert "This is not your password." in refused.json["problem"]
    device = Authenticator()
    options = browser_as("outsider").post("/profile/passkeys/options", data={"name": "x", "password": PASSWORD}).json
    sent = browser.post("/profile/passkeys", data={"name": "Laptop", "credential": device.create(options)})
    assert sent.headers["Location"] == "/profile/passkeys/new"
    assert "This took too long. Try again." in browser.get("/profile/passkeys/new").text
    assert session.scalars(select(Passkey)).all() == []


def test_a_passkey_is_known_once(browser_as, passkey):
    browser = browser_as("outsider")
    options = browser.post("/profile/passkeys/options", data={"name": "Mine", "password": PASSWORD}).json
    answer = browser.post("/profile/passkeys", data={"name": "Mine", "credential": passkey.create(options)})
    assert answer.headers["Location"] == "/profile/passkeys/new"
    assert "already registered" in browser.get("/profile/passkeys/new").text


def test_remove_a_passkey(browser_as, cast, passkey, sign_in):
    kept = session.scalars(select(Passkey)).one()
    address = f"/profile/passkeys/{kept.id}/remove"
    assert browser_as("outsider").get(address).status_code == 404
    assert browser_as("outsider").post(address, data={"password": PASSWORD}).status_code == 404
    browser = browser_as("owner")
    assert "Delete passkey Laptop" in browser.get(address).text
    assert browser.post(address, data={"password": "wrong"}).status_code == 422
    assert browser.post(address, data={"password": PASSWORD}).status_code == 303
    assert factors.count_codes(cast.owner) == 0
    assert not is_signed_in(sign_in_by_passkey(browser_as(), passkey))
    assert sign_in(browser_as()).headers["Location"] == "/"


def test_passkeys_are_listed_with_their_names(browser_as):
    browser = browser_as("owner")
    assert "Sign in with your finger" in browser.get("/profile/security").text
    for name in ("Laptop", "<b>Phone</b>"):
        add_passkey(browser, name=name)
    shown = browser.get("/profile/security").text
    assert "Laptop" in shown
    assert "&lt;b&gt;Phone" in shown


def test_passkeys_count_for_the_address_and_never_for_the_account(browser_as, passkey):
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
def test_the_site_is_that_of_the_public_address(public_url, host, origin):
    assert passkeys.Site.of(public_url) == (host, origin)
