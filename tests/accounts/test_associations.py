"""Operators delete team memberships (DELETE /api/v1/user/{id}/association/{membershipId})."""

import pytest

from panel.core import clock
from panel.core.db import session
from panel.models import Member


@pytest.fixture
def membership(cast):
    return session.query(Member).filter_by(account_id=cast.member.id).one()


def membership_path(account, member):
    return f"/api/v1/user/{account.id}/association/{member.id}"


@pytest.mark.parametrize("side", ["member", "owner"])
def test_membership_can_be_deleted_by_member_or_owner_id(api_as, cast, membership, side):
    shown = api_as("admin", "GET", f"/api/v1/user/{cast.member.id}").json["data"]
    assert (shown["membership_id"], shown["owner_id"]) == (membership.id, cast.owner.id)
    assert api_as("member", "GET", "/api/connect").status_code == 200
    assert api_as("admin", "DELETE", membership_path(getattr(cast, side), membership)).status_code == 200
    assert api_as("member", "GET", "/api/connect").status_code == 401
    assert session.query(Member).filter_by(id=membership.id).count() == 0


def test_open_invitation_is_listed_and_deleted(api_as, cast, membership):
    open_ = Member(owner_id=cast.owner.id, email="g@example.com", role_id=membership.role_id, invited_at=clock.now())
    session.add(open_)
    session.commit()
    users = api_as("admin", "GET", "/api/v1/users").json["data"]
    for shown in (api_as("admin", "GET", f"/api/v1/user/{cast.owner.id}").json["data"], *users):
        invitations = [(invitation["membership_id"], invitation["email"]) for invitation in shown["invitations"]]
        assert invitations == ([(open_.id, "g@example.com")] if shown["id"] == cast.owner.id else [])
    assert api_as("admin", "DELETE", membership_path(cast.owner, open_)).status_code == 200
    assert api_as("admin", "GET", f"/api/v1/user/{cast.owner.id}").json["data"]["invitations"] == []


def test_membership_of_other_account_is_not_found(api_as, cast, membership):
    for account in (cast.outsider, cast.viewer):
        assert api_as("admin", "DELETE", membership_path(account, membership)).status_code == 404
    assert api_as("owner", "DELETE", membership_path(cast.owner, membership)).status_code in (401, 403)
    assert api_as("admin", "GET", f"/api/v1/user/{cast.outsider.id}").json["data"]["membership_id"] is None
