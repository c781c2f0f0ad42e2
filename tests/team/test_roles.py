"""Roles by the API: who may give what."""

import pytest

from panel.auth import permissions
from panel.schemas.team import PERMISSIONS

ROLES = "/api/team/roles"


def test_the_catalog_has_every_permission_with_words(as_):
    """26 families by three verbs, and the special ones; the table that guards is the one that is shown."""
    rows = as_("owner", "GET", "/api/team/permissions").json["permissions"]
    assert tuple(row["name"] for row in rows) == permissions.MEMBER == tuple(PERMISSIONS)
    assert len([row for row in rows if row["verb"] in permissions.VERBS]) >= 26 * 3
    assert all(row["description"].endswith(".") and row["held"] for row in rows)
    held = {row["name"] for row in as_("viewer", "GET", "/api/team/permissions").json["permissions"] if row["held"]}
    assert held == {f"{family}.view" for family in permissions.FAMILIES}


def test_a_role_is_made_changed_and_removed(as_):
    body = {"name": "On call", "description": "At night", "permissions": ["instances.power"]}
    made = as_("owner", "POST", ROLES, json=body).json["role"]
    assert (made["name"], made["members"]) == ("On call", 0)
    assert made["permissions"] == ["instances.power", "instances.view"]
    path = f"/api/team/role/{made['id']}"
    changed = as_("owner", "PATCH", path, json={"permissions": ["instances.view"] * 2, "description": None}).json[
        "role"
    ]
    assert (changed["permissions"], changed["description"]) == (["instances.view"], None)
    assert as_("owner", "GET", path).json["role"] == changed
    listed = as_("owner", "GET", ROLES).json
    assert {row["name"]: row["members"] for row in listed["data"]} == {"Engineer": 1, "On call": 0, "Viewer": 1}
    assert as_("owner", "DELETE", path).json["success"] is True
    assert as_("owner", "GET", path).status_code == 404


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
def test_wrong_roles_are_refused_by_field(as_, body, field):
    answer = as_("owner", "POST", ROLES, json=body)
    assert (answer.status_code, list(answer.json["errors"])) == (422, [field])


def test_a_role_that_somebody_has_stays(as_, cast):
    rows = {row["name"]: row["id"] for row in as_("owner", "GET", ROLES).json["data"]}
    answer = as_("owner", "DELETE", f"/api/team/role/{rows['Viewer']}")
    assert (answer.status_code, answer.json["reason"]) == (409, "role_in_use")


def test_a_changed_role_counts_at_the_next_call(as_):
    rows = {row["name"]: row["id"] for row in as_("owner", "GET", ROLES).json["data"]}
    assert as_("viewer", "GET", "/api/instances").status_code == 200
    as_("owner", "PATCH", f"/api/team/role/{rows['Viewer']}", json={"permissions": ["account.view"]})
    answer = as_("viewer", "GET", "/api/instances")
    assert (answer.status_code, "instances.view" in answer.json["message"]) == (403, True)


def test_nobody_gives_more_than_they_hold(as_, joined, role):
    joined("head", ["team.manage", "account.view", "instances.view"])
    assert role("Same", ["instances.view"], who="head")
    body = {"name": "More", "permissions": ["instances.view", "instances.create"]}
    answer = as_("head", "POST", ROLES, json=body)
    assert answer.status_code == 403
    assert "instances.create" in answer.json["message"]
    small, large = role("Small", ["instances.view"]), role("Large", ["instances.create"])
    wider = {"permissions": ["instances.create"]}
    assert as_("head", "PATCH", f"/api/team/role/{small}", json=wider).status_code == 403
    assert as_("head", "PATCH", f"/api/team/role/{small}", json={"permissions": []}).status_code == 200
    assert as_("head", "PATCH", f"/api/team/role/{large}", json={"name": "Mine"}).status_code == 403
    assert as_("head", "DELETE", f"/api/team/role/{large}").status_code == 403
    assert as_("head", "DELETE", f"/api/team/role/{small}").status_code == 200


def test_nobody_gives_more_to_who_reaches_more(as_, cast, joined):
    """By a role that both of them are to have: what one may do with a little, the other could do with everything."""
    mine = cast.instance()
    joined("head", ["team.manage", "account.view", "instances.view", "instances.delete"], "chosen", [mine])
    everywhere = joined("everywhere", ["instances.view"])
    here = joined("here", ["instances.view"], "chosen", [mine])
    more = {"permissions": ["instances.view", "instances.delete"]}
    refused = as_("head", "PATCH", f"/api/team/role/{everywhere.role_id}", json=more)
    assert (refused.status_code, "reaches more than you" in refused.json["message"]) == (403, True)
    assert as_("head", "PATCH", f"/api/team/role/{here.role_id}", json=more).status_code == 200


def test_nobody_changes_their_own_role(as_, joined):
    member = joined("head", ["team.manage", "account.view", "instances.view"])
    answer = as_("head", "PATCH", f"/api/team/role/{member.role_id}", json={"permissions": ["instances.view"]})
    assert (answer.status_code, "your own role" in answer.json["message"]) == (403, True)


def test_roles_belong_to_one_account(as_, role):
    mine = role()
    for method, body in (("GET", None), ("PATCH", {"name": "x"}), ("DELETE", None)):
        assert as_("outsider", method, f"/api/team/role/{mine}", json=body).status_code == 404
    assert role(who="outsider") != mine


def test_who_may_act_also_sees(as_, role):
    """A role that could change what it cannot see would only lead to refusals."""
    made = {"vpcs.manage": "vpcs.view", "instances.create": "instances.view", "team.manage": "account.view"}
    for number, (given, added) in enumerate(made.items()):
        shown = as_("owner", "GET", f"/api/team/role/{role(f'R{number}', [given])}").json["role"]
        assert shown["permissions"] == sorted([given, added])
    alone = as_("owner", "GET", f"/api/team/role/{role('Alone', ['api_tokens.manage'])}").json["role"]
    assert alone["permissions"] == ["api_tokens.manage"]
