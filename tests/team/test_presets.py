"""Role presets, and the permissions that role forms offer."""

import re

from sqlalchemy import select

from panel.auth import permissions_in_use
from panel.core.db import session
from panel.models import Member, Role
from panel.pages.customer.team import ROLE_PRESETS, get_preset_permissions
from panel.schemas.team import PERMISSION_EXAMPLE
from panel.services import settings

TEAM_PATH = "/team"


def post_invitation(browser, email, role_id):
    return browser.post(f"{TEAM_PATH}/invite", data={"email": email, "role_id": role_id, "reach": "all"})


def test_invitation_with_preset_creates_role(browser_as, cast):
    """Invitations need no existing role."""
    browser = browser_as("outsider")
    page = browser.get(f"{TEAM_PATH}/invite").text
    assert [name for name in ROLE_PRESETS if f'value="preset:{name}"' in page] == [
        "Administrator",
        "Operator",
        "Read only",
    ]
    assert post_invitation(browser, "grace@example.com", "preset:Read only").status_code == 303
    role = session.scalar(select(Role).where(Role.account_id == cast.outsider.id))
    assert (role.name, role.permissions) == ("Read only", get_preset_permissions("Read only"))
    assert session.scalar(select(Member.role_id).where(Member.email == "grace@example.com")) == role.id
    assert 'value="preset:Read only"' not in browser.get(f"{TEAM_PATH}/invite").text


def test_existing_preset_role_is_reused(browser_as, cast):
    """Two invitations with the same preset share one role."""
    browser = browser_as("outsider")
    for name in ("ada", "grace"):
        assert post_invitation(browser, f"{name}@example.com", "preset:Operator").status_code == 303
    (role,) = session.scalars(select(Role).where(Role.account_id == cast.outsider.id)).all()
    assert role.members == 2


def test_unknown_preset_is_refused(browser_as):
    answer = post_invitation(browser_as("outsider"), "ada@example.com", "preset:Emperor")
    assert (answer.status_code, 'id="wrong-role_id"' in answer.text) == (422, True)


def test_presets_contain_only_used_member_permissions(rolled_back_app):
    used = permissions_in_use.list_used_permissions()
    for name in ROLE_PRESETS:
        assert set(get_preset_permissions(name)) <= used, name
        assert "team.manage" not in get_preset_permissions(name)
    assert all(permission.endswith(".view") for permission in get_preset_permissions("Read only"))


def test_role_form_offers_only_used_permissions(browser_as):
    """Permissions without operations are not offered."""
    settings.update({"billing_enabled": True})
    session.commit()
    page = browser_as("owner").get(f"{TEAM_PATH}/roles/new").text
    shown = set(re.findall(r'type="checkbox" name="permissions" value="([^"]+)"', page))
    assert shown == permissions_in_use.list_used_permissions()
    assert shown < set(PERMISSION_EXAMPLE)
    assert "Kubernetes" not in page


def test_role_edit_keeps_hidden_permissions(browser_as, cast):
    role = Role(account_id=cast.owner.id, name="Old", permissions=["instances.view", "dns_zones.view"])
    session.add(role)
    session.commit()
    page = browser_as("owner").get(f"{TEAM_PATH}/roles/{role.id}").text
    assert '<input type="hidden" name="permissions" value="dns_zones.view">' in page
