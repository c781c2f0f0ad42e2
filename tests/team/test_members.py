"""Members by the API: what they reach, who may change them, what ends with them."""

import pytest
from sqlalchemy import select

from panel.core import clock
from panel.core.db import session
from panel.models import Account, Grant, Member, Project, SignIn, Token
from panel.services import accounts, tokens
from tests.team.conftest import VIEWS

SUBUSERS = "/api/team/subusers"
HEAD = ["team.manage", "account.view", "instances.view", "projects.view"]


@pytest.fixture
def project(cast):
    def make(name="Shop", *instances):
        made = Project(account_id=cast.owner.id, name=name)
        session.add(made)
        session.flush()
        for instance in instances:
            instance.project_id = made.id
        session.commit()
        return made

    return make


def seen(as_, who):
    return {row["id"] for row in as_(who, "GET", "/api/instances").json["data"]}


def test_team_routes_need_the_account_scope(as_, cast):
    """IDT-30"""
    for name, scopes in (("other", ["instances:read", "instances:write"]), ("reads", ["account:read"])):
        cast.tokens[name] = tokens.issue("user", name="n", account=cast.owner, scopes=scopes)[1]
    session.commit()
    for path in (SUBUSERS, "/api/team/roles", "/api/team/permissions", "/api/dashboard", "/api/dashboard/summary"):
        answer = as_("other", "GET", path)
        assert (answer.status_code, "account:read" in answer.json["message"]) == (403, True)
        assert as_("reads", "GET", path).status_code == 200
        assert as_("owner", "GET", path).status_code == 200
    answer = as_("reads", "POST", "/api/team/roles", json={"name": "x", "permissions": []})
    assert (answer.status_code, "account:write" in answer.json["message"]) == (403, True)


def test_what_was_chosen_is_all_that_a_member_sees(as_, cast, joined):
    """IDT-44, IDT-45, IDT-42: on lists and by id; a member's token acts as the member."""
    permitted, other = cast.instance(), cast.instance()
    joined("single", VIEWS, "chosen", [permitted])
    assert seen(as_, "single") == {permitted.id}
    assert seen(as_, "owner") == {permitted.id, other.id}
    assert as_("single", "GET", f"/api/instance/{permitted.id}").status_code == 200
    for path in ("", "/ips", "/disks"):
        assert as_("single", "GET", f"/api/instance/{other.id}{path}").status_code == 404


def test_a_project_s_members_see_what_comes_into_it(as_, cast, joined, project):
    """IDT-44"""
    inside, outside = cast.instance(), cast.instance()
    shop = project("Shop", inside)
    project("Other", outside)
    joined("shopper", VIEWS, "projects", [shop])
    assert seen(as_, "shopper") == {inside.id}
    assert [row["name"] for row in as_("shopper", "GET", "/api/projects").json["data"]] == ["Shop"]
    session.merge(outside).project_id = shop.id
    session.commit()
    assert seen(as_, "shopper") == {inside.id, outside.id}


def test_who_makes_an_instance_keeps_it(as_, cast, joined):
    joined("maker", [*VIEWS, "instances.create"], "chosen")
    body = {"location_id": cast.location.id, "plan_id": cast.plan.id}
    made = as_("maker", "POST", "/api/cloud-service/instances", json=body).json["instance"]
    assert seen(as_, "maker") == {made["id"]}
    assert seen(as_, "owner") == {made["id"]}


def test_the_list_tells_who_reaches_what(as_, cast, joined, project):
    shop, instance = project(), cast.instance()
    joined("one", VIEWS, "projects", [shop])
    joined("two", VIEWS, "chosen", [instance])
    rows = {row["email"].partition("@")[0]: row for row in as_("owner", "GET", SUBUSERS).json["data"]}
    assert set(rows) == {"member", "viewer", "one", "two"}
    assert (rows["one"]["project_ids"], rows["one"]["resource_ids"]) == ([shop.id], [])
    assert (rows["two"]["reach"], rows["two"]["resource_ids"]) == ("chosen", [instance.id])
    assert (rows["viewer"]["reach"], rows["viewer"]["role_name"], rows["viewer"]["status"]) == (
        "all",
        "Viewer",
        "active",
    )


def test_the_list_costs_the_same_for_many(as_, cast, joined, queries):
    instance = cast.instance()
    joined("first", VIEWS, "chosen", [instance])
    as_("owner", "GET", SUBUSERS)
    queries.clear()
    as_("owner", "GET", SUBUSERS)
    few = len(queries)
    for number in range(12):
        joined(f"n{number}", VIEWS, "chosen", [instance])
    as_("owner", "GET", SUBUSERS)
    queries.clear()
    assert as_("owner", "GET", SUBUSERS).json["total"] == 15
    assert len(queries) == few


def test_role_and_reach_are_changed_at_once(as_, cast, joined, role, project):
    first, second = cast.instance(), cast.instance()
    shop = project("Shop", second)
    path = f"/api/team/subuser/{joined('single', VIEWS, 'chosen', [first]).id}/role"
    answer = as_("owner", "PATCH", path, json={"reach": "projects", "project_ids": [shop.id]})
    assert answer.json["subuser"]["project_ids"] == [shop.id]
    assert seen(as_, "single") == {second.id}
    as_("owner", "PATCH", path, json={"reach": "projects", "project_ids": [shop.id], "resource_ids": [first.id]})
    assert seen(as_, "single") == {first.id, second.id}
    as_("owner", "PATCH", path, json={"reach": "all"})
    assert seen(as_, "single") == {first.id, second.id}
    assert session.scalars(select(Grant)).all() == []
    as_("owner", "PATCH", path, json={"role_id": role("Blind", ["account.view"])})
    assert as_("single", "GET", "/api/instances").status_code == 403


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
def test_wrong_changes_are_refused_by_field(as_, joined, body, field):
    member = joined("single", VIEWS)
    answer = as_("owner", "PATCH", f"/api/team/subuser/{member.id}/role", json=body)
    assert (answer.status_code, list(answer.json["errors"])) == (422, [field])


def test_foreign_things_cannot_be_given(as_, cast, joined, role):
    member, foreign = joined("single", VIEWS, "chosen"), cast.instance("outsider")
    path = f"/api/team/subuser/{member.id}/role"
    answer = as_("owner", "PATCH", path, json={"reach": "chosen", "resource_ids": [foreign.id]})
    assert (answer.status_code, list(answer.json["errors"])) == (422, ["resource_ids"])
    answer = as_("owner", "PATCH", path, json={"role_id": role("Theirs", who="outsider")})
    assert (answer.status_code, list(answer.json["errors"])) == (422, ["role_id"])
    for method, end in (("PATCH", "/role"), ("DELETE", ""), ("POST", "/resend")):
        assert as_("outsider", method, f"/api/team/subuser/{member.id}{end}", json={}).status_code == 404


def test_nobody_gives_more_than_they_reach(as_, cast, joined, project):
    mine, other = cast.instance(), cast.instance()
    shop = project("Shop", other)
    joined("head", HEAD, "chosen", [mine])
    path = f"/api/team/subuser/{joined('below', ['instances.view'], 'chosen', [mine]).id}/role"
    for body in ({"reach": "all"}, {"reach": "projects", "project_ids": [shop.id]}):
        answer = as_("head", "PATCH", path, json=body)
        assert (answer.status_code, list(answer.json["errors"])) == (422, ["reach"])
    answer = as_("head", "PATCH", path, json={"reach": "chosen", "resource_ids": [other.id]})
    assert (answer.status_code, list(answer.json["errors"])) == (422, ["resource_ids"])
    assert as_("head", "PATCH", path, json={"reach": "chosen", "resource_ids": [mine.id]}).status_code == 200


def test_nobody_touches_who_may_do_or_reach_more(as_, cast, joined):
    mine, other = cast.instance(), cast.instance()
    own = joined("head", [*HEAD, "projects.manage"], "chosen", [mine])
    above = (
        joined("doer", ["instances.create"], "chosen", [mine]),
        joined("seer", ["instances.view"]),
        joined("neighbour", ["instances.view"], "chosen", [other]),
        own,
    )
    for member in above:
        assert as_("head", "PATCH", f"/api/team/subuser/{member.id}/role", json={}).status_code == 403, member.email
        assert as_("head", "DELETE", f"/api/team/subuser/{member.id}").status_code == 403, member.email
    made = as_("head", "POST", "/api/projects", json={"name": "Made by the head"}).json["project"]["id"]
    above = joined("shopper", ["instances.view"], "projects", [session.get(Project, made)])
    assert as_("head", "PATCH", f"/api/team/subuser/{above.id}/role", json={}).status_code == 403  # all that is in it
    below = joined("below", ["instances.view"], "chosen", [mine])
    assert as_("head", "DELETE", f"/api/team/subuser/{below.id}").status_code == 200


def test_a_removed_member_is_out_at_once(as_, cast, browse, joined):
    member = joined("leaver", VIEWS)
    browser = browse("leaver")
    old = tokens.issue("user", name="before 3.3.0", account=cast.owner, maker=cast.leaver, scopes=["instances:read"])[1]
    cast.tokens["old"] = old
    session.commit()
    person = cast.leaver.id
    assert [browser.get("/").status_code, as_("leaver", "GET", "/api/connect").status_code] == [200, 200]
    assert as_("old", "GET", "/api/connect").status_code == 200
    assert as_("owner", "DELETE", f"/api/team/subuser/{member.id}").status_code == 200
    assert browser.get("/").status_code == 303
    assert as_("leaver", "GET", "/api/connect").status_code == 401
    assert as_("old", "GET", "/api/connect").status_code == 401
    for model in (SignIn, Token):
        assert session.scalars(select(model).where(model.account_id == person)).all() == []


def test_an_account_that_was_there_before_or_owns_something_outlives_the_membership(as_, cast, joined):
    older = accounts.create(email="older@example.com")
    session.commit()
    for name in ("newer", "owning", "billed"):  # as an invitation makes them: the membership first
        joined(name, VIEWS).created_at = older.created_at
    cast.billed.external_id = "client-1"  # joined with the account that a billing system had made meanwhile
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
        assert as_("owner", "DELETE", f"/api/team/subuser/{by_email[email]}").status_code == 200
    left = set(session.scalars(select(Account.email)))
    assert {"older@example.com", "owning@example.com", "billed@example.com"} <= left
    assert "newer@example.com" not in left
