"""Roles in the API, and which permissions may be given."""

import pytest

from panel.auth import permissions
from panel.schemas.team import PERMISSION_EXAMPLE

ROLES_PATH = "/api/team/roles"


def test_permission_catalog_describes_all_permissions(api_as):
    """All families by three verbs, and the special ones; the catalog is the table that is enforced."""
    rows = api_as("owner", "GET", "/api/team/permissions").json["permissions"]
    assert tuple(row["name"] for row in rows) == permissions.MEMBER_PERMISSIONS == tuple(PERMISSION_EXAMPLE)
    assert len([row for row in rows if row["verb"] in permissions.PERMISSION_VERBS]) >= 26 * 3
    assert all(row["description"].endswith(".") and row["held"] for row in rows)
    names = {row["name"] for row in api_as("viewer", "GET", "/api/team/permissions").json["permissions"] if row["held"]}
    assert names == {f"{family}.view" for family in permissions.PERMISSION_FAMILIES}


def test_role_create_update_and_delete(api_as):
    body = {"name": "On call", "description": "At night", "permissions": ["instances.power"]}
    role = api_as("owner", "POST", ROLES_PATH, json=body).json["role"]
    assert (role["name"], role["members"]) == ("On call", 0)
    assert role["permissions"] == ["instances.power", "instances.view"]
    path = f"/api/team/role/{role['id']}"
    changed = api_as("owner", "PATCH", path, json={"permissions": ["instances.view"] * 2, "description": None}).json[
        "role"
    ]
    assert (changed["permissions"], changed["description"]) == (["instances.view"], None)
    assert api_as("owner", "GET", path).json["role"] == changed
    listed = api_as("owner", "GET", ROLES_PATH).json
    assert {row["name"]: row["members"] for row in listed["data"]} == {"Engineer": 1, "On call": 0, "Viewer": 1}
    assert api_as("owner", "DELETE", path).json["success"] is True
    assert api_as("owner", "GET", path).status_code == 404


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"permissions": []}, "name"),
        ({"name": "x"}, "permissions"),
        ({"name": "x", "permissions": ["instances.fly"]}, "permissions.0"),
        ({"name": "x", "permissions": "instances.view"}, "permissions"),
        ({"name": "", "permissions": []}, "name"),
        ({"name": "x" * 65, "permissions": []}, "name"),
        ({"name": "Viewer", "permissions": []}, "name"),
        ({"name": "x", "permissions": [], "account_id": "y"}, "account_id"),
    ],
)
def test_invalid_roles_are_refused(api_as, body, field):
    answer = api_as("owner", "POST", ROLES_PATH, json=body)
    assert (answer.status_code, list(answer.json["errors"])) == (422, [field])


def test_role_in_use_is_not_deleted(api_as, cast):
    rows = {row["name"]: row["id"] for row in api_as("owner", "GET", ROLES_PATH).json["data"]}
    answer = api_as("owner", "DELETE", f"/api/team/role/{rows['Viewer']}")
    assert (answer.status_code, answer.json["reason"]) == (409, "role_in_use")


def test_role_change_applies_to_next_request(api_as):
    rows = {row["name"]: row["id"] for row in api_as("owner", "GET", ROLES_PATH).json["data"]}
    assert api_as("viewer", "GET", "/api/instances").status_code == 200
    api_as("owner", "PATCH", f"/api/team/role/{rows['Viewer']}", json={"permissions": ["account.view"]})
    answer = api_as("viewer", "GET", "/api/instances")
    assert (answer.status_code, "instances.view" in answer.json["message"]) == (403, True)


def test_role_cannot_exceed_own_permissions(api_as, add_member, create_role):
    add_member("head", ["team.manage", "account.view", "instances.view"])
    assert create_role("Same", ["instances.view"], caller="head")
    body = {"name": "More", "permissions": ["instances.view", "instances.create"]}
    answer = api_as("head", "POST", ROLES_PATH, json=body)
    assert answer.status_code == 403
    assert "instances.create" in answer.json["message"]
    small, large = create_role("Small", ["instances.view"]), create_role("Large", ["instances.create"])
    wider = {"permissions": ["instances.create"]}
    assert api_as("head", "PATCH", f"/api/team/role/{small}", json=wider).status_code == 403
    assert api_as("head", "PATCH", f"/api/team/role/{small}", json={"permissions": []}).status_code == 200
    assert api_as("head", "PATCH", f"/api/team/role/{large}", json={"name": "Mine"}).status_code == 403
    assert api_as("head", "DELETE", f"/api/team/role/{large}").status_code == 403
    assert api_as("head", "DELETE", f"/api/team/role/{small}").status_code == 200


def test_role_of_members_with_more_reach_cannot_be_extended(api_as, cast, add_member):
    """A manager with limited reach cannot extend the role of a member who reaches everything."""
    own_instance = cast.instance()
    add_member("head", ["team.manage", "account.view", "instances.view", "instances.delete"], "chosen", [own_instance])
    everywhere = add_member("everywhere", ["instances.view"])
    member = add_member("here", ["instances.view"], "chosen", [own_instance])
    body = {"permissions": ["instances.view", "instances.delete"]}
    refused = api_as("head", "PATCH", f"/api/team/role/{everywhere.role_id}", json=body)
    assert (refused.status_code, "more access than you" in refused.json["message"]) == (403, True)
    assert api_as("head", "PATCH", f"/api/team/role/{member.role_id}", json=body).status_code == 200


def test_own_role_cannot_be_changed(api_as, add_member):
    member = add_member("head", ["team.manage", "account.view", "instances.view"])
    answer = api_as("head", "PATCH", f"/api/team/role/{member.role_id}", json={"permissions": ["instances.view"]})
    assert (answer.status_code, "your own role" in answer.json["message"]) == (403, True)


def test_role_of_other_account_is_not_found(api_as, create_role):
    own_role = create_role()
    for method, body in (("GET", None), ("PATCH", {"name": "x"}), ("DELETE", None)):
        assert api_as("outsider", method, f"/api/team/role/{own_role}", json=body).status_code == 404
    assert create_role(caller="outsider") != own_role


def test_manage_permission_implies_view(api_as, create_role):
    """A role with manage permissions gets the view permission of the same family."""
    implied_permissions = {
        "vpcs.manage": "vpcs.view",
        "instances.create": "instances.view",
        "team.manage": "account.view",
    }
    for number, (given, added) in enumerate(implied_permissions.items()):
        shown = api_as("owner", "GET", f"/api/team/role/{create_role(f'R{number}', [given])}").json["role"]
        assert shown["permissions"] == sorted([given, added])
    alone = api_as("owner", "GET", f"/api/team/role/{create_role('Alone', ['api_tokens.manage'])}").json["role"]
    assert alone["permissions"] == ["api_tokens.manage"]
