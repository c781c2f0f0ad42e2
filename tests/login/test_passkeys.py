"""Passkeys, with a device in software: alone, as the second step, and what is refused."""

import json

import pytest
from sqlalchemy import select

from panel.core.db import session
from panel.models import Passkey, SignIn
from panel.services import factors, passkeys
from tests.login.authenticator import Authenticator
from tests.login.conftest import add_passkey
from tests.support.cast import PASSWORD

OPTIONS = "/sign-in/passkey/options"


def opened(answer):
    """Whether the person was let in; else the page that asked says why not."""
    assert answer.status_code == 303
    return not answer.headers["Location"].startswith("/sign-in")


def by_passkey(browser, device, address="/sign-in/passkey"):
    return browser.post(address, data={"credential": device.get(browser.post(OPTIONS).json)})


def test_a_passkey_opens_alone(browse, cast, passkey, with_totp):
    browser = browse()
    answer = by_passkey(browser, passkey, "/sign-in/passkey?next=/instances")
    assert answer.headers["Location"] == "/instances"
    assert browser.get("/profile/security").status_code == 200
    kept = session.scalars(select(Passkey)).one()
    assert (kept.account_id, kept.sign_count) == (cast.owner.id, 1)
    assert kept.last_used_at


def test_with_a_passkey_the_password_needs_it_as_well(browse, sign_in, passkey):
    browser = browse()
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


def test_somebody_elses_passkey_is_no_second_step(browse, sign_in, passkey):
    theirs = add_passkey(browse("outsider"))
    browser = browse()
    sign_in(browser)
    options = browser.post(f"{OPTIONS}?second=1").json
    answer = browser.post("/sign-in/second-step/passkey", data={"credential": theirs.get(options)})
    assert not opened(answer)
    assert passkeys.REFUSED in browser.get("/sign-in/second-step").text
    assert browser.get("/").status_code == 303


def test_the_first_factor_gives_recovery_codes_and_the_next_does_not(browse, cast):
    browser = browse("owner")
    add_passkey(browser)
    assert browser.get("/profile/recovery-codes").text.count("<li><code>") == 10
    assert browser.get("/profile/recovery-codes").status_code == 303
    add_passkey(browser, name="Phone")
    assert browser.get("/profile/recovery-codes").status_code == 303
    assert factors.codes_left(cast.owner) == 10


def test_a_proof_counts_once(browse, passkey, move):
    browser = browse()
    proof = passkey.get(browser.post(OPTIONS).json)
    kept = browser.get_cookie("panel").value
    move(seconds=1)
    assert opened(browser.post("/sign-in/passkey", data={"credential": proof}))
    thief = browse()
    thief.set_cookie("panel", kept)
    assert not opened(thief.post("/sign-in/passkey", data={"credential": proof}))
    assert thief.get("/").status_code == 303


def test_a_challenge_is_for_one_purpose_and_five_minutes(browse, sign_in, passkey, move):
    browser = browse()
    sign_in(browser)
    second = passkey.get(browser.post(f"{OPTIONS}?second=1").json)
    assert not opened(browser.post("/sign-in/passkey", data={"credential": second}))
    proof = passkey.get(browser.post(OPTIONS).json)
    move(minutes=6)
    assert not opened(browser.post("/sign-in/passkey", data={"credential": proof}))
    assert not opened(browser.post("/sign-in/passkey", data={"credential": proof}))
    assert session.scalars(select(SignIn).where(SignIn.user_agent != "test")).all() == []


def test_a_proof_for_another_site_opens_nothing(browse, passkey):
    passkey.origin = "http://localhost.evil.example:8000"
    assert not opened(by_passkey(browse(), passkey))
    passkey.origin = "https://localhost:8000"
    assert not opened(by_passkey(browse(), passkey))


def test_a_proof_whose_owner_was_not_asked_opens_nothing(browse, passkey):
    passkey.flags &= ~0x04
    assert not opened(by_passkey(browse(), passkey))


def test_a_copy_of_the_key_with_an_old_counter_opens_nothing(browse, passkey):
    passkey.count = 10
    assert opened(by_passkey(browse(), passkey))
    passkey.count = 3
    assert not opened(by_passkey(browse(), passkey))


def test_another_key_under_the_same_name_opens_nothing(browse, passkey):
    other = Authenticator()
    other.id = passkey.id
    assert not opened(by_passkey(browse(), other))


@pytest.mark.parametrize("sent", ["{}", "nothing", "[]", "null", '{"id": 5}', '{"id": "x", "response": {}}', ""])
def test_what_is_no_proof_is_refused(browse, passkey, sent):
    browser = browse()
    browser.post(OPTIONS)
    assert not opened(browser.post("/sign-in/passkey", data={"credential": sent}))
    browser.post(OPTIONS)
    half = json.loads(passkey.credential({"clientDataJSON": "x", "authenticatorData": "!", "signature": ""}))
    assert not opened(browser.post("/sign-in/passkey", data={"credential": json.dumps(half)}))


def test_a_passkey_is_made_only_after_the_password(browse, cast):
    browser = browse("owner")
    refused = browser.post("/profile/passkeys/options", data={"name": "Laptop", "password": "wrong"})
    assert "This is not your password." in refused.json["problem"]
    device = Authenticator()
    options = browse("outsider").post("/profile/passkeys/options", data={"name": "x", "password": PASSWORD}).json
    sent = browser.post("/profile/passkeys", data={"name": "Laptop", "credential": device.create(options)})
    assert sent.headers["Location"] == "/profile/passkeys/new"
    assert "took too long" in browser.get("/profile/passkeys/new").text
    assert session.scalars(select(Passkey)).all() == []


def test_a_passkey_is_known_once(browse, passkey):
    browser = browse("outsider")
    options = browser.post("/profile/passkeys/options", data={"name": "Mine", "password": PASSWORD}).json
    answer = browser.post("/profile/passkeys", data={"name": "Mine", "credential": passkey.create(options)})
    assert answer.headers["Location"] == "/profile/passkeys/new"
    assert "known already" in browser.get("/profile/passkeys/new").text


def test_remove_a_passkey(browse, cast, passkey, sign_in):
    kept = session.scalars(select(Passkey)).one()
    address = f"/profile/passkeys/{kept.id}/remove"
    assert browse("outsider").get(address).status_code == 404
    assert browse("outsider").post(address, data={"password": PASSWORD}).status_code == 404
    browser = browse("owner")
    assert "Remove the passkey Laptop" in browser.get(address).text
    assert browser.post(address, data={"password": "wrong"}).status_code == 422
    assert browser.post(address, data={"password": PASSWORD}).status_code == 303
    assert factors.codes_left(cast.owner) == 0
    assert not opened(by_passkey(browse(), passkey))
    assert sign_in(browse()).headers["Location"] == "/"


def test_passkeys_are_listed_with_their_names(browse):
    browser = browse("owner")
    assert "Sign in with your finger" in browser.get("/profile/security").text
    for name in ("Laptop", "<b>Phone</b>"):
        add_passkey(browser, name=name)
    shown = browser.get("/profile/security").text
    assert "Laptop" in shown
    assert "&lt;b&gt;Phone" in shown


def test_passkeys_count_for_the_address_and_never_for_the_account(browse, passkey):
    browser = browse()
    answers = [browser.post("/sign-in/passkey", data={"credential": "{}"}).status_code for _ in range(11)]
    assert answers == [303] * 10 + [429]
    elsewhere = browse()
    elsewhere.environ_base |= {"REMOTE_ADDR": "203.0.113.9"}
    assert opened(by_passkey(elsewhere, passkey))


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
