"""Members in the API: their reach, who may change them, and their removal."""

import pytest
from sqlalchemy import select

from panel.core import clock
from panel.core.db import session
from panel.models import Account, LoginSession, Member, Project, ResourceGrant, Token
from panel.services import accounts, tokens
from tests.support.team import VIEW_PERMISSIONS

SUBUSERS_PATH = "/api/team/subusers"
TEAM_MANAGER_PERMISSIONS = ["team.manage", "account.view", "instances.view", "projects.view"]


@pytest.fixture
def create_project(cast):
    def make(name="Shop", *instances):
        project = Project(account_id=cast.owner.id, name=name)
        session.add(project)
        session.flush()
        for instance in instances:
            instance.project_id = project.id
        session.commit()
        return project

    return make


def list_visible_instances(as_, caller):
    return {row["id"] for row in as_(caller, "GET", "/api/instances").json["data"]}


def test_team_routes_require_account_scope(api_as, cast):
    """IDT-30"""
    for name, scopes in (("other", ["instances:read", "instances:write"]), ("reads", ["account:read"])):
        cast.tokens[name] = tokens.issue("user", name="n", account=cast.owner, scopes=scopes)[1]
    session.commit()
    for path in (SUBUSERS_PATH, "/api/team/roles", "/api/team/permissions", "/api/dashboard", "/api/dashboard/summary"):
        answer = api_as("other", "GET", path)
        assert (answer.status_code, "account:read" in answer.json["message"]) == (403, True)
        assert api_as("reads", "GET", path).status_code == 200
        assert api_as("owner", "GET", path).status_code == 200
    answer = api_as("reads", "POST", "/api/team/roles", json={"name": "x", "permissions": []})
    assert (answer.status_code, "account:write" in answer.json["message"]) == (403, True)


def test_member_sees_only_granted_instances(api_as, cast, add_member):
    """IDT-44, IDT-45, IDT-42: in lists and by id; a member's token acts as the member."""
    permitted, other = cast.instance(), cast.instance()
    add_member("single", VIEW_PERMISSIONS, "chosen", [permitted])
    assert list_visible_instances(api_as, "single") == {permitted.id}
    assert list_visible_instances(api_as, "owner") == {permitted.id, other.id}
    assert api_as("single", "GET", f"/api/instance/{permitted.id}").status_code == 200
    for path in ("", "/ips", "/disks"):
        assert api_as("single", "GET", f"/api/instance/{other.id}{path}").status_code == 404


def test_project_member_sees_instances_added_later(api_as, cast, add_member, create_project):
    """IDT-44"""
    inside, outside = cast.instance(), cast.instance()
    shop = create_project("Shop", inside)
    create_project("Other", outside)
    add_member("shopper", VIEW_PERMISSIONS, "projects", [shop])
    assert list_visible_instances(api_as, "shopper") == {inside.id}
    assert [row["name"] for row in api_as("shopper", "GET", "/api/projects").json["data"]] == ["Shop"]
    session.merge(outside).project_id = shop.id
    session.commit()
    assert list_visible_instances(api_as, "shopper") == {inside.id, outside.id}


def test_member_gets_access_to_created_instance(api_as, cast, add_member):
    add_member("maker", [*VIEW_PERMISSIONS, "instances.create"], "chosen")
    body = {"location_id": cast.location.id, "plan_id": cast.plan.id}
    instance = api_as("maker", "POST", "/api/cloud-service/instances", json=body).json["instance"]
    assert list_visible_instances(api_as, "maker") == {instance["id"]}
    assert list_visible_instances(api_as, "owner") == {instance["id"]}


def test_member_list_shows_reach_and_grants(api_as, cast, add_member, create_project):
    shop, instance = create_project(), cast.instance()
    add_member("one", VIEW_PERMISSIONS, "projects", [shop])
    add_member("two", VIEW_PERMISSIONS, "chosen", [instance])
    rows = {row["email"].partition("@")[0]: row for row in api_as("owner", "GET", SUBUSERS_PATH).json["data"]}
    assert set(rows) == {"member", "viewer", "one", "two"}
    assert (rows["one"]["project_ids"], rows["one"]["resource_ids"]) == ([shop.id], [])
    assert (rows["two"]["reach"], rows["two"]["resource_ids"]) == ("chosen", [instance.id])
    assert (rows["viewer"]["reach"], rows["viewer"]["role_name"], rows["viewer"]["status"]) == (
        "all",
        "Viewer",
        "active",
    )


def test_member_list_query_count_is_constant(api_as, cast, add_member, queries):
    instance = cast.instance()
    add_member("first", VIEW_PERMISSIONS, "chosen", [instance])
    api_as("owner", "GET", SUBUSERS_PATH)
    queries.clear()
    api_as("owner", "GET", SUBUSERS_PATH)
    few = len(queries)
    for number in range(12):
        add_member(f"n{number}", VIEW_PERMISSIONS, "chosen", [instance])
    api_as("owner", "GET", SUBUSERS_PATH)
    queries.clear()
    assert api_as("owner", "GET", SUBUSERS_PATH).json["total"] == 15
    assert len(queries) == few


def test_member_role_and_reach_changes_take_effect(api_as, cast, add_member, create_role, create_project):
    first, second = cast.instance(), cast.instance()
    shop = create_project("Shop", second)
    path = f"/api/team/subuser/{add_member('single', VIEW_PERMISSIONS, 'chosen', [first]).id}/role"
    answer = api_as("owner", "PATCH", path, json={"reach": "projects", "project_ids": [shop.id]})
    assert answer.json["subuser"]["project_ids"] == [shop.id]
    assert list_visible_instances(api_as, "single") == {second.id}
    api_as("owner", "PATCH", path, json={"reach": "projects", "project_ids": [shop.id], "resource_ids": [first.id]})
    assert list_visible_instances(api_as, "single") == {first.id, second.id}
    api_as("owner", "PATCH", path, json={"reach": "all"})
    assert list_visible_instances(api_as, "single") == {first.id, second.id}
    assert session.scalars(select(ResourceGrant)).all() == []
    api_as("owner", "PATCH", path, json={"role_id": create_role("Blind", ["account.view"])})
    assert api_as("single", "GET", "/api/instances").status_code == 403


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"reach": "some"}, "reach"),
        ({"reach": "all", "resource_ids": ["x"]}, "resource_ids"),
        ({"project_ids": ["x"]}, "project_ids"),
        ({"reach": "chosen", "resource_ids": ["x"]}, "resource_ids"),
        ({"reach": "projects", "project_ids": ["x"]}, "project_ids"),
        ({"role_id": "x"}, "role_id"),
        ({"email": "x@example.com"}, "email"),
    ],
)
def test_invalid_member_changes_are_refused(api_as, add_member, body, field):
    member = add_member("single", VIEW_PERMISSIONS)
    answer = api_as("owner", "PATCH", f"/api/team/subuser/{member.id}/role", json=body)
    assert (answer.status_code, list(answer.json["errors"])) == (422, [field])


def test_foreign_resources_cannot_be_granted(api_as, cast, add_member, create_role):
    member, foreign = add_member("single", VIEW_PERMISSIONS, "chosen"), cast.instance("outsider")
    path = f"/api/team/subuser/{member.id}/role"
    answer = api_as("owner", "PATCH", path, json={"reach": "chosen", "resource_ids": [foreign.id]})
    assert (answer.status_code, list(answer.json["errors"])) == (422, ["resource_ids"])
    answer = api_as("owner", "PATCH", path, json={"role_id": create_role("Theirs", caller="outsider")})
    assert (answer.status_code, list(answer.json["errors"])) == (422, ["role_id"])
    for method, end in (("PATCH", "/role"), ("DELETE", ""), ("POST", "/resend")):
        assert api_as("outsider", method, f"/api/team/subuser/{member.id}{end}", json={}).status_code == 404


def test_team_manager_cannot_grant_more_than_own_reach(api_as, cast, add_member, create_project):
    own_instance, other = cast.instance(), cast.instance()
    shop = create_project("Shop", other)
    add_member("head", TEAM_MANAGER_PERMISSIONS, "chosen", [own_instance])
    path = f"/api/team/subuser/{add_member('below', ['instances.view'], 'chosen', [own_instance]).id}/role"
    for body in ({"reach": "all"}, {"reach": "projects", "project_ids": [shop.id]}):
        answer = api_as("head", "PATCH", path, json=body)
        assert (answer.status_code, list(answer.json["errors"])) == (422, ["reach"])
    answer = api_as("head", "PATCH", path, json={"reach": "chosen", "resource_ids": [other.id]})
    assert (answer.status_code, list(answer.json["errors"])) == (422, ["resource_ids"])
    assert api_as("head", "PATCH", path, json={"reach": "chosen", "resource_ids": [own_instance.id]}).status_code == 200


def test_team_manager_cannot_change_more_powerful_members(api_as, cast, add_member):
    own_instance, other = cast.instance(), cast.instance()
    own = add_member("head", [*TEAM_MANAGER_PERMISSIONS, "projects.manage"], "chosen", [own_instance])
    above = (
        add_member("doer", ["instances.create"], "chosen", [own_instance]),
        add_member("seer", ["instances.view"]),
        add_member("neighbor", ["instances.view"], "chosen", [other]),
        own,
    )
    for member in above:
        assert api_as("head", "PATCH", f"/api/team/subuser/{member.id}/role", json={}).status_code == 403, member.email
        assert api_as("head", "DELETE", f"/api/team/subuser/{member.id}").status_code == 403, member.email
    project_id = api_as("head", "POST", "/api/projects", json={"name": "Made by the head"}).json["project"]["id"]
    above = add_member("shopper", ["instances.view"], "projects", [session.get(Project, project_id)])
    assert (
        api_as("head", "PATCH", f"/api/team/subuser/{above.id}/role", json={}).status_code == 403
    )  # includes every instance of the project
    below = add_member("below", ["instances.view"], "chosen", [own_instance])
    assert api_as("head", "DELETE", f"/api/team/subuser/{below.id}").status_code == 200


def test_removed_member_loses_access_immediately(api_as, cast, browser_as, add_member):
    member = add_member("leaver", VIEW_PERMISSIONS)
    browser = browser_as("leaver")
    old = tokens.issue(
        "user", name="before 3.3.0", account=cast.owner, created_by=cast.leaver, scopes=["instances:read"]
    )[1]
    cast.tokens["old"] = old
    session.commit()
    person = cast.leaver.id
    assert [browser.get("/").status_code, api_as("leaver", "GET", "/api/connect").status_code] == [200, 200]
    assert api_as("old", "GET", "/api/connect").status_code == 200
    assert api_as("owner", "DELETE", f"/api/team/subuser/{member.id}").status_code == 200
    assert browser.get("/").status_code == 303
    assert api_as("leaver", "GET", "/api/connect").status_code == 401
    assert api_as("old", "GET", "/api/connect").status_code == 401
    for model in (LoginSession, Token):
        assert session.scalars(select(model).where(model.account_id == person)).all() == []


def test_older_or_owning_account_survives_membership(api_as, cast, add_member):
    older = accounts.create(email="older@example.com")
    session.commit()
    for name in ("newer", "owning", "billed"):  # as by an invitation: the membership is older
        add_member(name, VIEW_PERMISSIONS).created_at = older.created_at
    cast.billed.external_id = "client-1"  # an account that a billing system created meanwhile
    member = Member(
        owner_id=cast.owner.id,
        account_id=older.id,
        role_id=session.scalars(select(Member.role_id)).first(),
        email=older.email,
        invited_at=clock.now(),
    )
    session.add(member)
    session.commit()
    cast.instance("owning")
    by_email = {row.email: row.id for row in session.scalars(select(Member))}
    for email in ("older@example.com", "newer@example.com", "owning@example.com", "billed@example.com"):
        assert api_as("owner", "DELETE", f"/api/team/subuser/{by_email[email]}").status_code == 200
    emails = set(session.scalars(select(Account.email)))
    assert {"older@example.com", "owning@example.com", "billed@example.com"} <= emails
    assert "newer@example.com" not in emails
