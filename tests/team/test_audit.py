"""What is done to a team stands in the audit log."""

from sqlalchemy import select

from panel.core.db import session
from panel.models import AuditEntry
from tests.team.conftest import VIEWS


def test_what_is_done_to_the_team_is_written_down(as_, cast, joined, invited, browse, link):
    member = joined("leaver", VIEWS).id
    invited("grace@example.com")
    browse().post(link(), data={"first_name": "G", "password": "a long password", "again": "a long password"})
    as_("owner", "DELETE", f"/api/team/subuser/{member}")
    found = {row.action: row for row in session.scalars(select(AuditEntry).order_by(AuditEntry.id))}
    gone = found["user.team.member_delete"]
    assert (gone.account_id, gone.object_id, gone.object_name) == (cast.owner.id, member, "leaver@example.com")
    assert found["user.team.invite"].object_name == "grace@example.com"
    assert found["invitations.accept"].account_id == cast.owner.id
    assert "a long password" not in str([row.changes for row in found.values()])
