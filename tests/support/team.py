"""Permissions and members of a team."""

import pytest

from panel.auth import permissions
from panel.core.db import session
from panel.models import Member, Project, ResourceGrant
from panel.services import tokens
from tests.support.cast import add_team_member

VIEW_PERMISSIONS = [f"{family}.view" for family in permissions.PERMISSION_FAMILIES]


@pytest.fixture
def add_member(cast):
    """Return a function that adds a member with a role and a token: `add_member("ops", ["instances.view"])`."""

    def create_member(name, allowed, reach="all", grants=()):
        person = add_team_member(cast.owner, f"{name}@example.com", name.title(), allowed, reach)
        member = session.query(Member).filter_by(account_id=person.id).one()
        for row in grants:
            kind = "project" if isinstance(row, Project) else "instance"
            session.add(ResourceGrant(member_id=member.id, resource_id=row.id, resource_type=kind))
        setattr(cast, name, person)
        cast.tokens[name] = tokens.issue("user", name="test", account=person, scopes=permissions.USER_SCOPES)[1]
        session.commit()
        return member

    return create_member
