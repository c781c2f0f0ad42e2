"""The team on the pages."""

import pytest
from sqlalchemy import select

from panel.core.db import session
from panel.models import Member, Role
from tests.team.conftest import VIEW_PERMISSIONS
from tests.test_pages import PARTIAL_HEADERS, HtmlOutline

TEAM = "/team"


@pytest.fixture
def owner(browser_as):
    return browser_as("owner")


@pytest.mark.parametrize("address", ["", "/invite", "/roles/new", "/roles/new?preset=Read only"])
def test_pages_are_well_formed(owner, cast, address):
    cast.instance(display_name="<b>&'\"")
    answer = owner.get(TEAM + address)
    assert answer.status_code == 200
    assert HtmlOutline(answer.text).open == []
    assert "<b>&" not in answer.text


def test_a_role_from_a_preset_to_its_end(owner):
    page = owner.get(f"{TEAM}/roles/new?preset=Operator").text
    assert page.count(" checked") == 3
    sent = {"name": "Ops", "description": "", "permissions": ["", "instances.power"]}
    assert owner.post(f"{TEAM}/roles/new", data=sent).headers["Location"] == TEAM
    role = session.scalar(select(Role).where(Role.name == "Ops"))
    assert role.permissions == ["instances.power", "instances.view"]
    place = f"{TEAM}/roles/{role.id}"
    assert owner.post(place, data={"name": "Ops", "permissions": ["", "vpcs.view"]}).status_code == 303
    assert session.get(Role, role.id).permissions == ["vpcs.view"]
    refused = owner.post(place, data={"name": "Viewer", "permissions": [""]})
    assert (refused.status_code, 'id="wrong-name"' in refused.text) == (422, True)
    assert owner.post(f"{place}/delete").headers["Location"] == TEAM
    assert session.get(Role, role.id) is None


def test_somebody_is_invited_and_taken_back(owner, cast, mails_to):
    instance, role = cast.instance(), session.scalar(select(Role).where(Role.name == "Viewer"))
    sent = {"email": "grace@example.com", "role_id": role.id, "reach": "chosen", "resource_ids": ["", instance.id]}
    assert owner.post(f"{TEAM}/invite", data=sent).headers["Location"] == TEAM
    member = session.scalar(select(Member).where(Member.email == "grace@example.com"))
    assert (member.reach, member.resource_ids) == ("chosen", [instance.id])
    assert "grace@example.com" in owner.get(TEAM).text
    assert owner.post(f"{TEAM}/members/{member.id}/resend").status_code == 303
    assert len(mails_to("grace@example.com")) == 2
    assert owner.post(f"{TEAM}/members/{member.id}/remove").status_code == 303
    assert "removed from the team" in owner.get(TEAM).text
    assert "grace@example.com" not in owner.get(TEAM).text


@pytest.mark.parametrize(
    ("change", "field"), [({"email": "x"}, "email"), ({"email": ""}, "email"), ({"role_id": ""}, "role_id")]
)
def test_mistakes_stand_beside_their_fields(owner, change, field):
    role = session.scalar(select(Role).where(Role.name == "Viewer"))
    sent = {"email": "grace@example.com", "role_id": role.id, "reach": "all", **change}
    answer = owner.post(f"{TEAM}/invite", data=sent)
    assert (answer.status_code, f'id="wrong-{field}"' in answer.text) == (422, True)


def test_a_member_s_role_and_reach_are_changed(owner, cast, add_member):
    instance, member = cast.instance(), add_member("ops", VIEW_PERMISSIONS)
    place = f"{TEAM}/members/{member.id}"
    assert 'value="all" checked' in owner.get(place).text
    sent = {"role_id": member.role_id, "reach": "chosen", "project_ids": "", "resource_ids": ["", instance.id]}
    assert owner.post(place, data=sent).status_code == 303
    assert session.get(Member, member.id).resource_ids == [instance.id]


def test_a_viewer_sees_the_team_and_why_nothing_can_be_changed(browser_as, cast):
    page = browser_as("viewer").get(TEAM).text
    assert "it needs team.manage" in page
    for path in ("/invite", "/roles/new"):
        answer = browser_as("viewer").get(TEAM + path)
        assert (answer.status_code, "team.manage" in answer.text) == (403, True)
    mine = session.scalar(select(Member).where(Member.account_id == cast.viewer.id))
    assert "it needs team.manage" in browser_as("viewer").get(f"{TEAM}/members/{mine.id}").text


def test_who_looks_after_the_team_gives_only_their_own(browser_as, add_member):
    add_member("head", ["team.manage", "account.view", "instances.view"], "chosen")
    browser = browser_as("head")
    assert browser.get(f"{TEAM}/roles/new").text.count(" disabled") > 30
    page = browser.get(f"{TEAM}/invite").text
    assert "permits more than your own role" in page
    assert "You do not have access to all of this yourself." in page
    mine = session.scalar(select(Member).where(Member.email == "head@example.com"))
    assert browser.post(f"{TEAM}/members/{mine.id}/remove").status_code == 403


def test_others_teams_are_not_there(browser_as, add_member):
    member = add_member("ops", VIEW_PERMISSIONS)
    for path in (f"/members/{member.id}", f"/roles/{member.role_id}"):
        assert browser_as("outsider").get(TEAM + path).status_code == 404


def test_the_list_costs_the_same_for_many(owner, add_member, queries):
    owner.get(TEAM)
    queries.clear()
    owner.get(TEAM, headers=PARTIAL_HEADERS)
    few = len(queries)
    for number in range(12):
        add_member(f"n{number}", VIEW_PERMISSIONS, "chosen")
    owner.get(TEAM)
    queries.clear()
    assert owner.get(TEAM, headers=PARTIAL_HEADERS).text.count('<tr id="member-') == 14
    assert len(queries) == few
