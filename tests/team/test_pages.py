"""Team pages."""

import re

import pytest
from sqlalchemy import select

from panel.core.db import session
from panel.models import Member, Role
from panel.pages.customer import team
from tests.support.html_pages import PARTIAL_HEADERS, HtmlOutline
from tests.support.team import VIEW_PERMISSIONS

TEAM_PATH = "/team"


@pytest.fixture
def owner_browser(browser_as):
    return browser_as("owner")


@pytest.mark.parametrize("address", ["", "/invite", "/roles/new", "/roles/new?preset=Read only"])
def test_team_pages_are_well_formed(owner_browser, cast, address):
    cast.instance(display_name="<b>&'\"")
    answer = owner_browser.get(TEAM_PATH + address)
    assert answer.status_code == 200
    assert HtmlOutline(answer.text).open == []
    assert "<b>&" not in answer.text


def test_role_pages_create_from_preset_to_delete(owner_browser):
    page = owner_browser.get(f"{TEAM_PATH}/roles/new?preset=Operator").text
    assert len(re.findall(r'name="permissions"[^>]* checked', page)) == 3
    sent = {"name": "Ops", "description": "", "permissions": ["", "instances.power"]}
    assert owner_browser.post(f"{TEAM_PATH}/roles/new", data=sent).headers["Location"] == TEAM_PATH
    role = session.scalar(select(Role).where(Role.name == "Ops"))
    assert role.permissions == ["instances.power", "instances.view"]
    place = f"{TEAM_PATH}/roles/{role.id}"
    assert owner_browser.post(place, data={"name": "Ops", "permissions": ["", "vpcs.view"]}).status_code == 303
    assert session.get(Role, role.id).permissions == ["vpcs.view"]
    refused = owner_browser.post(place, data={"name": "Viewer", "permissions": [""]})
    assert (refused.status_code, 'id="wrong-name"' in refused.text) == (422, True)
    assert owner_browser.post(f"{place}/delete").headers["Location"] == TEAM_PATH
    assert session.get(Role, role.id) is None


def test_member_pages_invite_resend_and_remove(owner_browser, cast, read_mails_to):
    instance, role = cast.instance(), session.scalar(select(Role).where(Role.name == "Viewer"))
    sent = {"email": "grace@example.com", "role_id": role.id, "reach": "chosen", "resource_ids": ["", instance.id]}
    assert owner_browser.post(f"{TEAM_PATH}/invite", data=sent).headers["Location"] == TEAM_PATH
    member = session.scalar(select(Member).where(Member.email == "grace@example.com"))
    assert (member.reach, member.resource_ids) == ("chosen", [instance.id])
    assert "grace@example.com" in owner_browser.get(TEAM_PATH).text
    assert owner_browser.post(f"{TEAM_PATH}/members/{member.id}/resend").status_code == 303
    assert len(read_mails_to("grace@example.com")) == 2
    assert owner_browser.post(f"{TEAM_PATH}/members/{member.id}/remove").status_code == 303
    assert "removed from the team" in owner_browser.get(TEAM_PATH).text
    assert "grace@example.com" not in owner_browser.get(TEAM_PATH).text


@pytest.mark.parametrize(
    ("change", "field"), [({"email": "x"}, "email"), ({"email": ""}, "email"), ({"role_id": ""}, "role_id")]
)
def test_invitation_form_errors_appear_at_fields(owner_browser, change, field):
    role = session.scalar(select(Role).where(Role.name == "Viewer"))
    sent = {"email": "grace@example.com", "role_id": role.id, "reach": "all", **change}
    answer = owner_browser.post(f"{TEAM_PATH}/invite", data=sent)
    assert (answer.status_code, f'id="wrong-{field}"' in answer.text) == (422, True)


def test_member_page_changes_role_and_reach(owner_browser, cast, add_member):
    instance, member = cast.instance(), add_member("ops", VIEW_PERMISSIONS)
    place = f"{TEAM_PATH}/members/{member.id}"
    assert 'value="all" checked' in owner_browser.get(place).text
    sent = {"role_id": member.role_id, "reach": "chosen", "project_ids": "", "resource_ids": ["", instance.id]}
    assert owner_browser.post(place, data=sent).status_code == 303
    assert session.get(Member, member.id).resource_ids == [instance.id]


def test_resource_search_keeps_chosen_resources_and_input(owner_browser, cast, monkeypatch):
    monkeypatch.setattr(team, "MAX_LISTED_RESOURCES", 1)
    names = {cast.instance(display_name=name).id: name for name in ("alpha", "beta", "gamma")}
    alpha_id, beta_id, gamma_id = names
    page = owner_browser.get(f"{TEAM_PATH}/invite").text
    assert [resource_id in page for resource_id in names] == [True, False, False]
    sent = {"email": "grace@example.com", "reach": "chosen", "resource_ids": ["", alpha_id]}
    found = owner_browser.post(f"{TEAM_PATH}/invite", data=sent | {"resource_search": "GAM", "find": "1"})
    assert (found.status_code, "grace@example.com" in found.text, "wrong-" in found.text) == (200, True, False)
    assert f'value="{alpha_id}" checked' in found.text
    assert (f'value="{gamma_id}"' in found.text, beta_id in found.text) == (True, False)
    assert session.scalar(select(Member).where(Member.email == "grace@example.com")) is None
    sent["role_id"] = session.scalar(select(Role.id).where(Role.name == "Viewer"))
    sent |= {"resource_ids": ["", alpha_id, gamma_id], "resource_search": "gam"}
    assert owner_browser.post(f"{TEAM_PATH}/invite", data=sent).status_code == 303
    member = session.scalar(select(Member).where(Member.email == "grace@example.com"))
    assert set(member.resource_ids) == {alpha_id, gamma_id}
    page = owner_browser.get(f"{TEAM_PATH}/members/{member.id}").text
    assert all(f'value="{resource_id}" checked' in page for resource_id in (alpha_id, gamma_id))
    answer = owner_browser.post(
        f"{TEAM_PATH}/members/{member.id}", data=sent | {"resource_ids": "", "find": "1", "resource_search": "beta"}
    )
    assert (f'value="{beta_id}"' in answer.text, alpha_id in answer.text) == (True, False)
    assert set(session.get(Member, member.id).resource_ids) == {alpha_id, gamma_id}


def test_viewer_sees_team_and_disabled_reason(browser_as, cast):
    page = browser_as("viewer").get(TEAM_PATH).text
    assert "it needs team.manage" in page
    for path in ("/invite", "/roles/new"):
        answer = browser_as("viewer").get(TEAM_PATH + path)
        assert (answer.status_code, "team.manage" in answer.text) == (403, True)
    own_member = session.scalar(select(Member).where(Member.account_id == cast.viewer.id))
    assert "it needs team.manage" in browser_as("viewer").get(f"{TEAM_PATH}/members/{own_member.id}").text


def test_team_manager_forms_offer_only_own_permissions(browser_as, add_member):
    add_member("head", ["team.manage", "account.view", "instances.view"], "chosen")
    browser = browser_as("head")
    assert browser.get(f"{TEAM_PATH}/roles/new").text.count(" disabled") > 30
    page = browser.get(f"{TEAM_PATH}/invite").text
    assert "permits more than your own role" in page
    assert "You do not have access to all of this yourself." in page
    own_member = session.scalar(select(Member).where(Member.email == "head@example.com"))
    assert browser.post(f"{TEAM_PATH}/members/{own_member.id}/remove").status_code == 403


def test_team_of_other_account_is_not_found(browser_as, add_member):
    member = add_member("ops", VIEW_PERMISSIONS)
    for path in (f"/members/{member.id}", f"/roles/{member.role_id}"):
        assert browser_as("outsider").get(TEAM_PATH + path).status_code == 404


def test_member_list_query_count_is_constant(owner_browser, add_member, queries):
    owner_browser.get(TEAM_PATH)
    queries.clear()
    owner_browser.get(TEAM_PATH, headers=PARTIAL_HEADERS)
    few = len(queries)
    for number in range(12):
        add_member(f"n{number}", VIEW_PERMISSIONS, "chosen")
    owner_browser.get(TEAM_PATH)
    queries.clear()
    assert owner_browser.get(TEAM_PATH, headers=PARTIAL_HEADERS).text.count('<tr id="member-') == 14
    assert len(queries) == few
