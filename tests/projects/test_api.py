"""Projects by the API."""

import pytest

from panel.core.db import session
from panel.models import Grant, Instance
from tests.team.conftest import VIEWS

PROJECTS, ASSIGN = "/api/projects", "/api/project/assign-resource"


@pytest.fixture
def project(as_):
    def make(name="Web shop", who="owner", **more):
        return as_(who, "POST", PROJECTS, json={"name": name, **more}).json["project"]

    return make


def put(as_, project_id, *instances, who="owner"):
    for instance in instances:
        body = {"resource_type": "instance", "resource_id": instance.id, "project_id": project_id}
        answer = as_(who, "POST", ASSIGN, json=body)
    return answer


def test_a_project_is_made_changed_and_removed(as_, cast, project):
    made = project(description="All of it", color="#1c5FD4")
    assert (made["name"], made["description"], made["color"]) == ("Web shop", "All of it", "#1c5FD4")
    path = f"/api/project/{made['id']}"
    body = {"name": "Web shop", "description": None, "color": None}
    changed = as_("owner", "PATCH", path, json=body).json["project"]
    assert (changed["description"], changed["color"]) == (None, None)
    assert as_("owner", "GET", path).json["project"] == changed
    assert [row["id"] for row in as_("owner", "GET", PROJECTS).json["data"]] == [made["id"]]
    assert as_("owner", "DELETE", path).json["success"] is True
    assert as_("owner", "GET", path).status_code == 404
    assert as_("owner", "DELETE", path).status_code == 404


def test_what_is_not_sent_is_null_and_not_empty(as_, project):
    made = project()
    assert (made["description"], made["color"]) == (None, None)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "name"),
        ({"name": ""}, "name"),
        ({"name": "x" * 65}, "name"),
        ({"name": "a/b"}, "name"),
        ({"name": "näh"}, "name"),
        ({"name": "x", "color": "blue"}, "color"),
        ({"name": "x", "color": "#12345g"}, "color"),
        ({"name": "x", "description": "x" * 256}, "description"),
        ({"name": "Taken"}, "name"),
        ({"name": "x", "id": "y"}, "id"),
    ],
)
def test_wrong_values_are_refused_by_field(as_, project, body, field):
    project("Taken")
    answer = as_("owner", "POST", PROJECTS, json=body)
    assert (answer.status_code, list(answer.json["errors"])) == (422, [field])


def test_assigned_is_seen_at_once_and_taken_out_by_null(as_, cast, project):
    made, instance, other = project(), cast.instance(), cast.instance()
    path = f"/api/instance/{instance.id}"
    assert as_("owner", "GET", path).json["project_id"] is None
    assert put(as_, made["id"], instance).json["success"] is True
    assert as_("owner", "GET", path).json["project_id"] == made["id"]
    rows = as_("owner", "GET", f"/api/instances?project_id={made['id']}").json["data"]
    assert [(row["id"], row["project_id"]) for row in rows] == [(instance.id, made["id"])]
    shown = as_("owner", "GET", f"/api/project/{made['id']}").json
    assert [row["id"] for row in shown["instances"]["data"]] == [instance.id]
    assert as_("owner", "GET", PROJECTS).json["data"][0]["instances"] == 1
    left = as_("owner", "GET", f"/api/project/{made['id']}/available-resources").json["data"]
    assert [row["resource_id"] for row in left] == [other.id]
    put(as_, None, instance)
    assert as_("owner", "GET", path).json["project_id"] is None


def test_several_at_once_or_none(as_, cast, project):
    made, mine, foreign = project(), [cast.instance(), cast.instance()], cast.instance("outsider")

    def bulk(*rows):
        resources = [{"resource_type": "instance", "resource_id": row.id} for row in rows]
        body = {"resources": resources, "project_id": made["id"]}
        return as_("owner", "POST", "/api/project/bulk-assign", json=body)

    refused = bulk(*mine, foreign)
    assert (refused.status_code, list(refused.json["errors"])) == (422, ["resource_id"])
    assert "not found" in refused.json["message"]
    assert as_("owner", "GET", f"/api/instances?project_id={made['id']}").json["total"] == 0
    assert bulk(*mine).status_code == 200
    assert as_("owner", "GET", f"/api/instances?project_id={made['id']}").json["total"] == 2
    body = {"resources": [], "project_id": None}
    assert as_("owner", "POST", "/api/project/bulk-assign", json=body).status_code == 422


@pytest.mark.parametrize("kind", ["vpc", "load_balancer", "s3_bucket", "managed_database", "planet"])
def test_what_does_not_exist_yet_cannot_be_assigned(as_, project, kind):
    body = {"resource_type": kind, "resource_id": "x", "project_id": project()["id"]}
    answer = as_("owner", "POST", ASSIGN, json=body)
    assert (answer.status_code, list(answer.json["errors"])) == (422, ["resource_type"])


def test_who_may_not_see_instances_is_not_offered_them(as_, cast, project, joined):
    made, _ = project(), cast.instance()
    joined("sorter", ["projects.view", "projects.manage"])
    left = as_("sorter", "GET", f"/api/project/{made['id']}/available-resources")
    assert (left.status_code, left.json["total"]) == (200, 0)


def test_projects_belong_to_one_account(as_, cast, project):
    made, foreign = project(), cast.instance("outsider")
    for method, end in (("GET", ""), ("PATCH", ""), ("DELETE", ""), ("GET", "/available-resources")):
        body = {"name": "x"} if method == "PATCH" else None
        assert as_("outsider", method, f"/api/project/{made['id']}{end}", json=body).status_code == 404
    answer = put(as_, made["id"], foreign, who="outsider")
    assert (answer.status_code, list(answer.json["errors"])) == (422, ["project_id"])
    assert as_("outsider", "GET", PROJECTS).json["total"] == 0
    assert project(who="outsider")["name"] == made["name"]


def test_a_removed_project_leaves_its_instances_and_takes_its_members(as_, cast, project, joined):
    made, instance = project(), cast.instance()
    put(as_, made["id"], instance)
    member = joined("shopper", VIEWS, "projects")
    session.add(Grant(member_id=member.id, resource_id=made["id"], resource_type="project"))
    session.commit()
    assert as_("shopper", "GET", "/api/instances").json["total"] == 1
    as_("owner", "DELETE", f"/api/project/{made['id']}")
    assert session.get(Instance, instance.id).project_id is None
    assert as_("shopper", "GET", "/api/instances").json["total"] == 0


def test_a_member_assigns_only_what_they_reach(as_, cast, project, joined):
    made, mine, other = project(), cast.instance(), cast.instance()
    member = joined("sorter", [*VIEWS, "projects.manage"], "chosen", [mine])
    assert put(as_, made["id"], mine, who="sorter").status_code == 422
    own = project("Own", who="sorter")
    assert put(as_, own["id"], mine, who="sorter").status_code == 200
    assert put(as_, own["id"], other, who="sorter").status_code == 422
    assert as_("sorter", "GET", PROJECTS).json["total"] == 1
    assert {grant.resource_type for grant in member.grants} == {"instance", "project"}


def test_the_list_costs_the_same_for_many(as_, cast, project, queries):
    put(as_, project()["id"], cast.instance())
    as_("owner", "GET", PROJECTS)
    queries.clear()
    as_("owner", "GET", PROJECTS)
    few = len(queries)
    for number in range(10):
        project(f"Project {number}")
    as_("owner", "GET", PROJECTS)
    queries.clear()
    assert as_("owner", "GET", PROJECTS).json["total"] == 11
    assert len(queries) == few


def test_who_sees_no_instances_sees_none_in_a_project(as_, cast, project, joined):
    made = project()
    put(as_, made["id"], cast.instance())
    joined("sorter", ["projects.view"])
    shown = as_("sorter", "GET", f"/api/project/{made['id']}").json
    assert (shown["project"]["id"], "instances" in shown) == (made["id"], False)
