"""The password rule, which applies wherever a password is set."""

import pytest
from flask import url_for
from zxcvbn.frequency_lists import FREQUENCY_LISTS

from panel.core import clock
from panel.core.db import session
from panel.core.errors import Invalid
from panel.models import Member, Role
from panel.schemas.constants import PASSWORD_MIN_LENGTH
from panel.services import accounts, passwords
from panel.services.password_rules import ensure_strong_password, is_easy_to_guess
from panel.services.tokens import hash_secret
from tests.support.cast import PASSWORD

EMAIL = "owner@example.com"
WEAK_PASSWORDS = ("aaaaaaaaaaaa", "password1234", "123456789012", EMAIL, "abcabcabcabc", "11 characte")
PASSWORDS_LIKE_EMAIL = ("Owner@Example.com", "owner@example.com1", "owner123owner", "owner@example", "ownerownerowner")
GOOD_PASSWORDS = ("correct horse battery", "staple battery horse", "a long test password", "kX2v-9aQw_31Lz")


def test_common_passwords_are_easy_to_guess():
    """The 10,000 most common."""
    common = list(FREQUENCY_LISTS["passwords"])[:10_000]
    assert len(common) == 10_000
    assert [password for password in common if not is_easy_to_guess(password, EMAIL)] == []


@pytest.mark.parametrize("password", [*WEAK_PASSWORDS, *PASSWORDS_LIKE_EMAIL])
def test_weak_passwords_are_refused(password):
    """Common passwords, repetitions and the account's email address."""
    with pytest.raises(Invalid) as refused:
        ensure_strong_password(password, EMAIL, "new")
    assert list(refused.value.fields) == ["new"]


@pytest.mark.parametrize("password", [*GOOD_PASSWORDS, "ä" * 3 + "Zügel über Köln", "kX2v-9aQw_31Lz" * 70])
def test_strong_passwords_are_accepted(password):
    ensure_strong_password(password, EMAIL)


def set_by_profile(as_, browse, cast, password):
    body = {"current_password": PASSWORD, "new_password": password}
    answer = as_("owner", "POST", "/api/profile/password", json=body)
    return answer.status_code, list(answer.json["errors"])


def set_by_profile_page(as_, browse, cast, password):
    data = {"current": PASSWORD, "new": password, "again": password}
    return browse("owner").post("/profile/password", data=data)


def set_by_reset_link(as_, browse, cast, password):
    link = passwords.find_reset_context(EMAIL)["link"]
    session.commit()
    data = {"new": password, "again": password}
    answer = browse().post("/reset-password/" + link.rsplit("/", 1)[1], data=data)
    assert browse().get("/reset-password/" + link.rsplit("/", 1)[1]).status_code == 200, "the link is still valid"
    return answer


def set_by_invitation(as_, browse, cast, password):
    password = password.replace("owner@", "owner2@")
    role = session.query(Role).first()
    member = Member(
        owner_id=cast.owner.id, email=EMAIL.replace("owner", "owner2"), role=role, invited_at=clock.now(), reach="all"
    )
    member.invitation_hash = hash_secret("secret")
    session.add(member)
    session.commit()
    return browse().post("/invitation/secret", data={"first_name": "G", "password": password, "again": password})


def set_by_operator(as_, browse, cast, password):
    answer = as_("admin", "POST", "/api/v1/users", json={"email": "owner@example.org", "password": password})
    return answer.status_code, list(answer.json["errors"])


def set_by_operator_page(as_, browse, cast, password):
    return browse("admin").post("/admin/customers/new", data={"email": "owner@example.org", "password": password})


def set_by_billing(as_, browse, cast, password):
    body = {"external_id": "7", "email": "owner@example.org", "password": password}
    answer = as_("billing", "POST", "/api/v1/billing/users", json=body)
    return answer.status_code, list(answer.json["errors"])


def set_by_command_line(as_, browse, cast, password):
    with pytest.raises(Invalid):  # what `panel user create` and `panel user password` call
        accounts.create(email="owner@example.org", password=password)
    with pytest.raises(Invalid):
        passwords.change(cast.owner, password, None)
    return 422, ["password"]


PASSWORD_SETTERS = {
    set_by_profile: "new_password",
    set_by_profile_page: None,
    set_by_reset_link: None,
    set_by_invitation: None,
    set_by_operator: "password",
    set_by_operator_page: None,
    set_by_billing: "password",
    set_by_command_line: "password",
}


@pytest.mark.parametrize("way", PASSWORD_SETTERS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("password", ["aaaaaaaaaaaa", "password1234", "short", "owner@example.com"])
def test_password_rule_applies_to_every_setter(api_as, browser_as, cast, way, password):
    before = cast.owner.password_hash
    answer = way(api_as, browser_as, cast, password)
    if PASSWORD_SETTERS[way]:
        assert answer == (422, [PASSWORD_SETTERS[way]])
    else:
        assert answer.status_code == 422
        assert "is-invalid" in answer.text
    assert cast.owner.password_hash == before
    assert accounts.find_by_email("owner@example.org") is accounts.find_by_email("owner2@example.com") is None


def test_pages_show_minimum_password_length(app, browser_as):
    """The same minimum on every page."""
    with app.test_request_context():
        address = url_for("admin_accounts.new")
    for page in (browser_as("admin").get(address), browser_as("owner").get("/profile/security")):
        assert f"At least {PASSWORD_MIN_LENGTH} characters" in page.text


def test_guest_passwords_are_not_checked(api_as, cast):
    instance = cast.instance()
    body = {"image_id": cast.image.id, "password": "password"}
    assert api_as("owner", "POST", f"/api/instance/{instance.id}/deploy", json=body).status_code == 200
