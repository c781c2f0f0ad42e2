"""Audit entries of team changes."""

from sqlalchemy import select

from panel.core.db import session
from panel.models import AuditEntry
from tests.support.team import VIEW_PERMISSIONS


def test_team_changes_are_audited(api_as, cast, add_member, invite_member, browser_as, get_invitation_path):
    member = add_member("leaver", VIEW_PERMISSIONS).id
    invite_member("grace@example.com")
    browser_as().post(
        get_invitation_path(), data={"first_name": "G", "password": "a long password", "again": "a long password"}
    )
    api_as("owner", "DELETE", f"/api/team/subuser/{member}")
    entries = {row.action: row for row in session.scalars(select(AuditEntry).order_by(AuditEntry.id))}
    gone = entries["user.team.member_delete"]
    assert (gone.account_id, gone.object_id, gone.object_name) == (cast.owner.id, member, "leaver@example.com")
    assert entries["user.team.invite"].object_name == "grace@example.com"
    assert entries["invitations.accept"].account_id == cast.owner.id
    assert "a long password" not in str([row.changes for row in entries.values()])
