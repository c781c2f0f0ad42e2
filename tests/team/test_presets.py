"""Roles that a team can use without making them first, and what role forms offer."""

import re

from sqlalchemy import select

from panel.auth import permissions_in_use
from panel.core.db import session
from panel.models import Member, Role
from panel.pages.customer.team import ROLE_PRESETS, preset_permissions
from panel.schemas.team import PERMISSIONS
from panel.services import settings

TEAM = "/team"


def invite(browser, email, role_id):
    return browser.post(f"{TEAM}/invite", data={"email": email, "role_id": role_id, "reach": "all"})


def test_a_new_account_invites_with_a_preset(browser_as, cast):
    """Finding m25: a role had to exist before anybody could be invited."""
    browser = browser_as("outsider")
    page = browser.get(f"{TEAM}/invite").text
    assert [name for name in ROLE_PRESETS if f'value="preset:{name}"' in page] == [
        "Administrator",
        "Operator",
        "Read only",
    ]
    assert invite(browser, "grace@example.com", "preset:Read only").status_code == 303
    role = session.scalar(select(Role).where(Role.account_id == cast.outsider.id))
    assert (role.name, role.permissions) == ("Read only", preset_permissions("Read only"))
    assert session.scalar(select(Member.role_id).where(Member.email == "grace@example.com")) == role.id
    assert 'value="preset:Read only"' not in browser.get(f"{TEAM}/invite").text


def test_a_preset_that_another_request_has_used_is_taken_as_it_is(browser_as, cast):
    """Two invitations at once use one role."""
    browser = browser_as("outsider")
    for name in ("ada", "grace"):
        assert invite(browser, f"{name}@example.com", "preset:Operator").status_code == 303
    (role,) = session.scalars(select(Role).where(Role.account_id == cast.outsider.id)).all()
    assert role.members == 2


def test_an_unknown_preset_is_an_unknown_role(browser_as):
    answer = invite(browser_as("outsider"), "ada@example.com", "preset:Emperor")
    assert (answer.status_code, 'id="wrong-role_id"' in answer.text) == (422, True)


def test_presets_give_nothing_that_is_the_owners_or_does_not_exist(rolled_back_app):
    used = permissions_in_use.used_permissions()
    for name in ROLE_PRESETS:
        assert set(preset_permissions(name)) <= used, name
        assert "team.manage" not in preset_permissions(name)
    assert all(each.endswith(".view") for each in preset_permissions("Read only"))


def test_the_form_offers_the_permissions_that_something_asks_for(browser_as):
    """Finding M6: 14 of 26 rows had no operation."""
    settings.update({"billing_enabled": True})
    session.commit()
    page = browser_as("owner").get(f"{TEAM}/roles/new").text
    shown = set(re.findall(r'type="checkbox" name="permissions" value="([^"]+)"', page))
    assert shown == permissions_in_use.used_permissions()
    assert shown < set(PERMISSIONS)
    assert "Kubernetes" not in page


def test_an_edit_keeps_permissions_that_are_not_offered(browser_as, cast):
    role = Role(account_id=cast.owner.id, name="Old", permissions=["instances.view", "dns_zones.view"])
    session.add(role)
    session.commit()
    page = browser_as("owner").get(f"{TEAM}/roles/{role.id}").text
    assert '<input type="hidden" name="permissions" value="dns_zones.view">' in page
