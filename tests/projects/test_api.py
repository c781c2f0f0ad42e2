"""Projects by the API."""

import pytest

from panel.core.db import session
from panel.models import Instance, ResourceGrant
from tests.team.conftest import VIEW_PERMISSIONS

PROJECTS, ASSIGN = "/api/projects", "/api/project/assign-resource"


@pytest.fixture
def project(api_as):
    def make(name="Web shop", who="owner", **more):
        return api_as(who, "POST", PROJECTS, json={"name": name, **more}).json["project"]

    return make


def assign_instances(as_, project_id, *instances, who="owner"):
    for instance in instances:
        body = {"resource_type": "instance", "resource_id": instance.id, "project_id": project_id}
        answer = as_(who, "POST", ASSIGN, json=body)
    return answer


def test_a_project_is_made_changed_and_removed(api_as, cast, project):
    made = project(description="All of it", color="#1c5FD4")
    assert (made["name"], made["description"], made["color"]) == ("Web shop", "All of it", "#1c5FD4")
    path = f"/api/project/{made['id']}"
    body = {"name": "Web shop", "description": None, "color": None}
    changed = api_as("owner", "PATCH", path, json=body).json["project"]
    assert (changed["description"], changed["color"]) == (None, None)
    assert api_as("owner", "GET", path).json["project"] == changed
    assert [row["id"] for row in api_as("owner", "GET", PROJECTS).json["data"]] == [made["id"]]
    assert api_as("owner", "DELETE", path).json["success"] is True
    assert api_as("owner", "GET", path).status_code == 404
    assert api_as("owner", "DELETE", path).status_code == 404


def test_what_is_not_sent_is_null_and_not_empty(api_as, project):
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
def test_wrong_values_are_refused_by_field(api_as, project, body, field):
    project("Taken")
    answer = api_as("owner", "POST", PROJECTS, json=body)
    assert (answer.status_code, list(answer.json["errors"])) == (422, [field])


def test_assigned_is_seen_at_once_and_taken_out_by_null(api_as, cast, project):
    made, instance, other = project(), cast.instance(), cast.instance()
    path = f"/api/instance/{instance.id}"
    assert api_as("owner", "GET", path).json["project_id"] is None
    assert assign_instances(api_as, made["id"], instance).json["success"] is True
    assert api_as("owner", "GET", path).json["project_id"] == made["id"]
    rows = api_as("owner", "GET", f"/api/instances?project_id={made['id']}").json["data"]
    assert [(row["id"], row["project_id"]) for row in rows] == [(instance.id, made["id"])]
    shown = api_as("owner", "GET", f"/api/project/{made['id']}").json
    assert [row["id"] for row in shown["instances"]["data"]] == [instance.id]
    assert api_as("owner", "GET", PROJECTS).json["data"][0]["instances"] == 1
    left = api_as("owner", "GET", f"/api/project/{made['id']}/available-resources").json["data"]
    assert [row["resource_id"] for row in left] == [other.id]
    assign_instances(api_as, None, instance)
    assert api_as("owner", "GET", path).json["project_id"] is None


def test_several_at_once_or_none(api_as, cast, project):
    made, mine, foreign = project(), [cast.instance(), cast.instance()], cast.instance("outsider")

    def bulk(*rows):
        resources = [{"resource_type": "instance", "resource_id": row.id} for row in rows]
        body = {"resources": resources, "project_id": made["id"]}
        return api_as("owner", "POST", "/api/project/bulk-assign", json=body)

    refused = bulk(*mine, foreign)
    assert (refused.status_code, list(refused.json["errors"])) == (422, ["resource_id"])
    assert "not found" in refused.json["message"]
    assert api_as("owner", "GET", f"/api/instances?project_id={made['id']}").json["total"] == 0
    assert bulk(*mine).status_code == 200
    assert api_as("owner", "GET", f"/api/instances?project_id={made['id']}").json["total"] == 2
    body = {"resources": [], "project_id": None}
    assert api_as("owner", "POST", "/api/project/bulk-assign", json=body).status_code == 422


@pytest.mark.parametrize("kind", ["vpc", "load_balancer", "s3_bucket", "managed_database", "planet"])
def test_what_does_not_exist_yet_cannot_be_assigned(api_as, project, kind):
    body = {"resource_type": kind, "resource_id": "x", "project_id": project()["id"]}
    answer = api_as("owner", "POST", ASSIGN, json=body)
    assert (answer.status_code, list(answer.json["errors"])) == (422, ["resource_type"])


def test_who_may_not_see_instances_is_not_offered_them(api_as, cast, project, add_member):
    made, _ = project(), cast.instance()
    add_member("sorter", ["projects.view", "projects.manage"])
    left = api_as("sorter", "GET", f"/api/project/{made['id']}/available-resources")
    assert (left.status_code, left.json["total"]) == (200, 0)


def test_projects_belong_to_one_account(api_as, cast, project):
    made, foreign = project(), cast.instance("outsider")
    for method, end in (("GET", ""), ("PATCH", ""), ("DELETE", ""), ("GET", "/available-resources")):
        body = {"name": "x"} if method == "PATCH" else None
        assert api_as("outsider", method, f"/api/project/{made['id']}{end}", json=body).status_code == 404
    answer = assign_instances(api_as, made["id"], foreign, who="outsider")
    assert (answer.status_code, list(answer.json["errors"])) == (422, ["project_id"])
    assert api_as("outsider", "GET", PROJECTS).json["total"] == 0
    assert project(who="outsider")["name"] == made["name"]


def test_a_removed_project_leaves_its_instances_and_takes_its_members(api_as, cast, project, add_member):
    made, instance = project(), cast.instance()
    assign_instances(api_as, made["id"], instance)
    member = add_member("shopper", VIEW_PERMISSIONS, "projects")
    session.add(ResourceGrant(member_id=member.id, resource_id=made["id"], resource_type="project"))
    session.commit()
    assert api_as("shopper", "GET", "/api/instances").json["total"] == 1
    api_as("owner", "DELETE", f"/api/project/{made['id']}")
    assert session.get(Instance, instance.id).project_id is None
    assert api_as("shopper", "GET", "/api/instances").json["total"] == 0


def test_a_member_assigns_only_what_they_reach(api_as, cast, project, add_member):
    made, mine, other = project(), cast.instance(), cast.instance()
    member = add_member("sorter", [*VIEW_PERMISSIONS, "projects.manage"], "chosen", [mine])
    assert assign_instances(api_as, made["id"], mine, who="sorter").status_code == 422
    own = project("Own", who="sorter")
    assert assign_instances(api_as, own["id"], mine, who="sorter").status_code == 200
    assert assign_instances(api_as, own["id"], other, who="sorter").status_code == 422
    assert api_as("sorter", "GET", PROJECTS).json["total"] == 1
    assert {grant.resource_type for grant in member.grants} == {"instance", "project"}


def test_the_list_costs_the_same_for_many(api_as, cast, project, queries):
    assign_instances(api_as, project()["id"], cast.instance())
    api_as("owner", "GET", PROJECTS)
    queries.clear()
    api_as("owner", "GET", PROJECTS)
    few = len(queries)
    for number in range(10):
        project(f"Project {number}")
    api_as("owner", "GET", PROJECTS)
    queries.clear()
    assert api_as("owner", "GET", PROJECTS).json["total"] == 11
    assert len(queries) == few


def test_who_sees_no_instances_sees_none_in_a_project(api_as, cast, project, add_member):
    made = project()
    assign_instances(api_as, made["id"], cast.instance())
    add_member("sorter", ["projects.view"])
    shown = api_as("sorter", "GET", f"/api/project/{made['id']}").json
    assert (shown["project"]["id"], "instances" in shown) == (made["id"], False)
