"""Invitations: a mailed link that works once, and reveals nothing about other accounts to the inviter."""

from datetime import timedelta

import pytest
from sqlalchemy import select

from panel.core import clock
from panel.core.db import session
from panel.models import Account, AuditEntry, Member
from panel.services import accounts, invitations

INVITE_PATH = "/api/team/subusers/invite"
INVITED_EMAIL = "grace@example.com"
SIGN_UP_FORM = {"first_name": "Grace", "last_name": "Hopper", "password": "a long password", "again": "a long password"}


def find_member(address):
    return session.scalar(select(Member).where(Member.email == address))


def test_invitation_from_mail_to_team_membership(
    api_as, cast, browser_as, invite_member, get_invitation_path, read_mails_to
):
    instance = cast.instance()
    cast.instance()
    member = invite_member(f" {INVITED_EMAIL.upper()} ".strip(), reach="chosen", resource_ids=[instance.id])
    assert (member["email"], member["status"], member["name"]) == (INVITED_EMAIL, "invited", None)
    browser, address = browser_as(), get_invitation_path()
    letter = read_mails_to(INVITED_EMAIL)[-1]
    assert "owner@example.com" in letter["Subject"]
    assert "Olga Owner" in browser.get(address).text
    answer = browser.post(address, data=SIGN_UP_FORM)
    assert (answer.status_code, answer.headers["Location"]) == (303, "/")
    assert "Olga Owner" in browser.get("/").text
    page = browser.get("/instances").text
    assert (page.count('<tr id="instance-'), instance.id in page) == (1, True)
    assert accounts.authenticate(INVITED_EMAIL, SIGN_UP_FORM["password"])
    rows = {row["email"]: row for row in api_as("owner", "GET", "/api/team/subusers").json["data"]}
    assert (rows[INVITED_EMAIL]["status"], rows[INVITED_EMAIL]["name"]) == ("active", "Grace Hopper")
    assert browser_as().get(address).status_code == 404
    assert browser_as().post(address, data=SIGN_UP_FORM).status_code == 404


def test_invitation_secret_is_only_in_mail(api_as, invite_member, get_invitation_path):
    answer = invite_member()
    assert not any("invitation" in name or "secret" in name for name in answer)
    secret = get_invitation_path().rpartition("/")[2]
    assert secret not in str(answer)
    assert find_member(INVITED_EMAIL).invitation_hash != secret


def test_sign_up_form_errors_appear_at_fields(browser_as, invite_member, get_invitation_path):
    invite_member()
    address = get_invitation_path()
    for change, text in (
        ({"password": "short", "again": "short"}, "Length must be between 12 and 1024."),
        ({"again": "another long one"}, "The passwords do not match."),
        ({"first_name": ""}, "This field is required."),
    ):
        answer = browser_as().post(address, data={**SIGN_UP_FORM, **change})
        assert (answer.status_code, text in answer.text) == (422, True)
        assert SIGN_UP_FORM["password"] not in answer.text
    assert accounts.find_by_email(INVITED_EMAIL) is None


def test_invitation_link_expires_after_seven_days(api_as, browser_as, invite_member, get_invitation_path, monkeypatch):
    invite_member()
    address = get_invitation_path()
    moved = clock.now() + timedelta(days=7, seconds=1)
    monkeypatch.setattr(clock, "now", lambda: moved)
    assert browser_as().get(address).status_code == 404
    assert find_member(INVITED_EMAIL).status == "expired"
    assert api_as("owner", "POST", f"/api/team/subuser/{find_member(INVITED_EMAIL).id}/resend").status_code == 200
    assert browser_as().get(address).status_code == 404
    assert browser_as().get(get_invitation_path()).status_code == 200


def test_resent_invitation_invalidates_previous_link(api_as, browser_as, invite_member, get_invitation_path):
    member = invite_member()
    first = get_invitation_path()
    assert api_as("owner", "POST", f"/api/team/subuser/{member['id']}/resend").json["subuser"]["status"] == "invited"
    assert browser_as().get(first).status_code == 404
    assert browser_as().get(get_invitation_path()).status_code == 200


def test_resend_after_acceptance_is_refused(api_as, cast):
    viewer = session.scalar(select(Member).where(Member.account_id == cast.viewer.id))
    answer = api_as("owner", "POST", f"/api/team/subuser/{viewer.id}/resend")
    assert (answer.status_code, answer.json["reason"]) == (409, "already_accepted")


def test_link_of_deleted_invitation_is_invalid(api_as, browser_as, invite_member, get_invitation_path):
    member = invite_member()
    address = get_invitation_path()
    assert api_as("owner", "DELETE", f"/api/team/subuser/{member['id']}").status_code == 200
    assert browser_as().get(address).status_code == 404


def test_invitation_does_not_reveal_existing_accounts(api_as, cast, create_role, read_mails_to):
    """Answer and mail are the same for addresses with and without an account."""
    answers = []
    role_id = create_role()
    for address in ("nobody@example.com", cast.outsider.email):
        body = {"email": address, "role_id": role_id}
        answer = api_as("owner", "POST", INVITE_PATH, json=body)
        expected = {**answer.json["subuser"], "id": "", "email": "", "invited_at": ""}
        answers.append((answer.status_code, answer.json["message"], expected))
        assert len(read_mails_to(address)) == 1
    assert answers[0] == answers[1]


@pytest.mark.parametrize("address", ["owner@example.com", "viewer@example.com", INVITED_EMAIL])
def test_duplicate_invitation_is_refused(api_as, invite_member, create_role, address):
    invite_member(INVITED_EMAIL)
    answer = api_as("owner", "POST", INVITE_PATH, json={"email": address.upper(), "role_id": create_role()})
    assert (answer.status_code, list(answer.json["errors"])) == (422, ["email"])


def test_existing_account_signs_in_and_joins_team(cast, browser_as, invite_member, get_invitation_path):
    invite_member(cast.outsider.email)
    address = get_invitation_path(cast.outsider.email)
    assert "Sign in to join" in browser_as().get(address).text
    refused = browser_as().post(address, data=SIGN_UP_FORM)
    assert refused.status_code == 422
    assert "signed in as admin@example.com" in browser_as("admin").get(address).text
    assert browser_as("admin").post(f"{address}/join").status_code == 409
    browser = browser_as("outsider")
    assert "Join the team" in browser.get(address).text
    assert browser.post(f"{address}/join").headers["Location"] == "/"
    assert "Olga Owner" in browser.get("/").text
    assert find_member(cast.outsider.email).account_id == cast.outsider.id


def test_acceptance_is_audited_as_invited_person(cast, browser_as, invite_member, get_invitation_path):
    """Also in a browser in which another account is signed in, whose audit log gets no entry."""
    invite_member()
    browser = browser_as("outsider")
    assert browser.post(get_invitation_path(), data=SIGN_UP_FORM).headers["Location"] == "/"
    entry = session.scalar(select(AuditEntry).where(AuditEntry.action == "invitations.accept"))
    assert (entry.person, entry.account_id) == (INVITED_EMAIL, cast.owner.id)


def test_join_refusal_shows_reason(api_as, cast, browser_as, invite_member, get_invitation_path):
    cast.instance("outsider")
    invite_member(cast.outsider.email)
    browser, address = browser_as("outsider"), get_invitation_path(cast.outsider.email)
    assert "Your account has 1 instance of its own" in browser.get(address).text
    assert browser.post(f"{address}/join").status_code == 409
    invite_member(cast.admin.email)
    assert "Operators of the panel do not join" in browser_as("admin").get(get_invitation_path(cast.admin.email)).text
    assert find_member(cast.admin.email).account_id is None


def test_member_cannot_join_second_team(api_as, cast, browser_as, create_role, get_invitation_path):
    role_id = create_role(caller="outsider")
    api_as("outsider", "POST", INVITE_PATH, json={"email": cast.viewer.email, "role_id": role_id})
    browser, address = browser_as("viewer"), get_invitation_path(cast.viewer.email)
    assert "You are already in a team" in browser.get(address).text
    assert browser.post(f"{address}/join").status_code == 409


def test_parallel_acceptance_creates_one_account(browser_as, invite_member, get_invitation_path, monkeypatch):
    """The account was created by the other request in between: the database refuses a second one."""
    invite_member()
    address = get_invitation_path()
    accounts.create(email=INVITED_EMAIL)
    session.commit()
    monkeypatch.setattr(accounts, "ensure_unique_email", lambda *_, **__: None)
    assert browser_as().post(address, data=SIGN_UP_FORM).status_code in (404, 422)
    assert len(session.scalars(select(Account).where(Account.email == INVITED_EMAIL)).all()) == 1
    assert find_member(INVITED_EMAIL).account_id is None


def test_open_invitation_does_not_block_owner_deletion(api_as, cast, create_role):
    api_as("outsider", "POST", INVITE_PATH, json={"email": INVITED_EMAIL, "role_id": create_role(caller="outsider")})
    assert api_as("admin", "DELETE", f"/api/v1/user/{cast.outsider.id}").status_code == 200
    assert find_member(INVITED_EMAIL) is None


def test_invitation_mails_are_rate_limited(api_as, create_role, monkeypatch):
    monkeypatch.setattr(invitations, "INVITATION_MAILS_PER_MINUTE", 2)
    role_id = create_role()
    codes = [
        api_as("owner", "POST", INVITE_PATH, json={"email": f"{number}@example.com", "role_id": role_id}).status_code
        for number in range(3)
    ]
    assert codes == [200, 200, 429]
    monkeypatch.setattr(invitations, "MAX_OPEN_INVITATIONS", 2)
    assert api_as("owner", "POST", INVITE_PATH, json={"email": "x@example.com", "role_id": role_id}).status_code == 422
