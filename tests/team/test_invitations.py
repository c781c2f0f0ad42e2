"""Invitations: a link by mail that works once, and tells the inviter nothing about other accounts."""

from datetime import timedelta

import pytest
from sqlalchemy import select

from panel.core import clock
from panel.core.db import session
from panel.models import Account, AuditEntry, Member
from panel.services import accounts, invitations

INVITE = "/api/team/subusers/invite"
GRACE = "grace@example.com"
CHOICE = {"first_name": "Grace", "last_name": "Hopper", "password": "a long password", "again": "a long password"}


def member_of(address):
    return session.scalar(select(Member).where(Member.email == address))


def test_the_way_through_a_mail(api_as, cast, browser_as, invite_member, invitation_path, mails_to):
    instance = cast.instance()
    cast.instance()
    made = invite_member(f" {GRACE.upper()} ".strip(), reach="chosen", resource_ids=[instance.id])
    assert (made["email"], made["status"], made["name"]) == (GRACE, "invited", None)
    browser, address = browser_as(), invitation_path()
    letter = mails_to(GRACE)[-1]
    assert "owner@example.com" in letter["Subject"]
    assert "Olga Owner" in browser.get(address).text
    answer = browser.post(address, data=CHOICE)
    assert (answer.status_code, answer.headers["Location"]) == (303, "/")
    assert "Olga Owner" in browser.get("/").text
    page = browser.get("/instances").text
    assert (page.count('<tr id="instance-'), instance.id in page) == (1, True)
    assert accounts.authenticate(GRACE, CHOICE["password"])
    rows = {row["email"]: row for row in api_as("owner", "GET", "/api/team/subusers").json["data"]}
    assert (rows[GRACE]["status"], rows[GRACE]["name"]) == ("active", "Grace Hopper")
    assert browser_as().get(address).status_code == 404
    assert browser_as().post(address, data=CHOICE).status_code == 404


def test_the_secret_is_only_in_the_mail(api_as, invite_member, invitation_path):
    answer = invite_member()
    assert not any("invitation" in name or "secret" in name for name in answer)
    secret = invitation_path().rpartition("/")[2]
    assert secret not in str(answer)
    assert member_of(GRACE).invitation_hash != secret


def test_wrong_choices_are_shown_beside_their_fields(browser_as, invite_member, invitation_path):
    invite_member()
    address = invitation_path()
    for change, words in (
        ({"password": "short", "again": "short"}, "Length must be between 12 and 1024."),
        ({"again": "another long one"}, "The passwords do not match."),
        ({"first_name": ""}, "This field is required."),
    ):
        answer = browser_as().post(address, data={**CHOICE, **change})
        assert (answer.status_code, words in answer.text) == (422, True)
        assert CHOICE["password"] not in answer.text
    assert accounts.find_by_email(GRACE) is None


def test_a_link_ends_after_seven_days(api_as, browser_as, invite_member, invitation_path, monkeypatch):
    invite_member()
    address = invitation_path()
    moved = clock.now() + timedelta(days=7, seconds=1)
    monkeypatch.setattr(clock, "now", lambda: moved)
    assert browser_as().get(address).status_code == 404
    assert member_of(GRACE).status == "expired"
    assert api_as("owner", "POST", f"/api/team/subuser/{member_of(GRACE).id}/resend").status_code == 200
    assert browser_as().get(address).status_code == 404
    assert browser_as().get(invitation_path()).status_code == 200


def test_a_newer_link_ends_the_older_one(api_as, browser_as, invite_member, invitation_path):
    made = invite_member()
    first = invitation_path()
    assert api_as("owner", "POST", f"/api/team/subuser/{made['id']}/resend").json["subuser"]["status"] == "invited"
    assert browser_as().get(first).status_code == 404
    assert browser_as().get(invitation_path()).status_code == 200


def test_who_joined_is_not_invited_again(api_as, cast):
    viewer = session.scalar(select(Member).where(Member.account_id == cast.viewer.id))
    answer = api_as("owner", "POST", f"/api/team/subuser/{viewer.id}/resend")
    assert (answer.status_code, answer.json["reason"]) == (409, "already_accepted")


def test_an_invitation_that_is_taken_back_opens_nothing(api_as, browser_as, invite_member, invitation_path):
    made = invite_member()
    address = invitation_path()
    assert api_as("owner", "DELETE", f"/api/team/subuser/{made['id']}").status_code == 200
    assert browser_as().get(address).status_code == 404


def test_the_inviter_does_not_learn_who_has_an_account(api_as, cast, create_role, mails_to):
    """The answer for an address with an account is the one for an address without, and so is the mail."""
    answers = []
    role_id = create_role()
    for address in ("nobody@example.com", cast.outsider.email):
        body = {"email": address, "role_id": role_id}
        answer = api_as("owner", "POST", INVITE, json=body)
        known = {**answer.json["subuser"], "id": "", "email": "", "invited_at": ""}
        answers.append((answer.status_code, answer.json["message"], known))
        assert len(mails_to(address)) == 1
    assert answers[0] == answers[1]


@pytest.mark.parametrize("address", ["owner@example.com", "viewer@example.com", GRACE])
def test_nobody_is_invited_twice(api_as, invite_member, create_role, address):
    invite_member(GRACE)
    answer = api_as("owner", "POST", INVITE, json={"email": address.upper(), "role_id": create_role()})
    assert (answer.status_code, list(answer.json["errors"])) == (422, ["email"])


def test_one_with_an_account_signs_in_and_joins(cast, browser_as, invite_member, invitation_path):
    invite_member(cast.outsider.email)
    address = invitation_path(cast.outsider.email)
    assert "Sign in to join" in browser_as().get(address).text
    refused = browser_as().post(address, data=CHOICE)
    assert refused.status_code == 422
    assert "signed in as admin@example.com" in browser_as("admin").get(address).text
    assert browser_as("admin").post(f"{address}/join").status_code == 409
    browser = browser_as("outsider")
    assert "Join the team" in browser.get(address).text
    assert browser.post(f"{address}/join").headers["Location"] == "/"
    assert "Olga Owner" in browser.get("/").text
    assert member_of(cast.outsider.email).account_id == cast.outsider.id


def test_it_is_the_new_person_who_accepts(cast, browser_as, invite_member, invitation_path):
    """Also in a browser in which somebody else was signed in: nothing of it stands in that one's trail."""
    invite_member()
    browser = browser_as("outsider")
    assert browser.post(invitation_path(), data=CHOICE).headers["Location"] == "/"
    entry = session.scalar(select(AuditEntry).where(AuditEntry.action == "invitations.accept"))
    assert (entry.person, entry.account_id) == (GRACE, cast.owner.id)


def test_who_cannot_join_is_told_why(api_as, cast, browser_as, invite_member, invitation_path):
    cast.instance("outsider")
    invite_member(cast.outsider.email)
    browser, address = browser_as("outsider"), invitation_path(cast.outsider.email)
    assert "Your account has 1 instance of its own" in browser.get(address).text
    assert browser.post(f"{address}/join").status_code == 409
    invite_member(cast.admin.email)
    assert "Operators of the panel do not join" in browser_as("admin").get(invitation_path(cast.admin.email)).text
    assert member_of(cast.admin.email).account_id is None


def test_a_person_is_in_one_team(api_as, cast, browser_as, create_role, invitation_path):
    role_id = create_role(who="outsider")
    api_as("outsider", "POST", INVITE, json={"email": cast.viewer.email, "role_id": role_id})
    browser, address = browser_as("viewer"), invitation_path(cast.viewer.email)
    assert "You are already in a team" in browser.get(address).text
    assert browser.post(f"{address}/join").status_code == 409


def test_of_two_who_use_the_link_at_once_one_gets_in(browser_as, invite_member, invitation_path, monkeypatch):
    """The other one's account was written in between: the database refuses a second one."""
    invite_member()
    address = invitation_path()
    accounts.create(email=GRACE)
    session.commit()
    monkeypatch.setattr(accounts, "ensure_unique_email", lambda *_, **__: None)
    assert browser_as().post(address, data=CHOICE).status_code in (404, 422)
    assert len(session.scalars(select(Account).where(Account.email == GRACE)).all()) == 1
    assert member_of(GRACE).account_id is None


def test_an_invitation_does_not_hold_the_owner_s_account(api_as, cast, create_role):
    api_as("outsider", "POST", INVITE, json={"email": GRACE, "role_id": create_role(who="outsider")})
    assert api_as("admin", "DELETE", f"/api/v1/user/{cast.outsider.id}").status_code == 200
    assert member_of(GRACE) is None


def test_mailboxes_are_not_filled(api_as, create_role, monkeypatch):
    monkeypatch.setattr(invitations, "INVITATION_MAILS_PER_MINUTE", 2)
    role_id = create_role()
    codes = [
        api_as("owner", "POST", INVITE, json={"email": f"{number}@example.com", "role_id": role_id}).status_code
        for number in range(3)
    ]
    assert codes == [200, 200, 429]
    monkeypatch.setattr(invitations, "MAX_OPEN_INVITATIONS", 2)
    assert api_as("owner", "POST", INVITE, json={"email": "x@example.com", "role_id": role_id}).status_code == 422
