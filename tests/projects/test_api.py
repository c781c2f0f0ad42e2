"""Projects in the API."""

import pytest

from panel.core.db import session
from panel.models import Instance, ResourceGrant
from tests.projects.paths import ASSIGN_PATH, PROJECTS_PATH
from tests.support.team import VIEW_PERMISSIONS


def assign_instances(as_, project_id, *instances, caller="owner"):
    for instance in instances:
        body = {"resource_type": "instance", "resource_id": instance.id, "project_id": project_id}
        answer = as_(caller, "POST", ASSIGN_PATH, json=body)
    return answer


def test_project_create_update_and_delete(api_as, cast, create_project):
    project = create_project(description="All of it", color="#1c5FD4")
    assert (project["name"], project["description"], project["color"]) == ("Web shop", "All of it", "#1c5FD4")
    path = f"/api/project/{project['id']}"
    body = {"name": "Web shop", "description": None, "color": None}
    changed = api_as("owner", "PATCH", path, json=body).json["project"]
    assert (changed["description"], changed["color"]) == (None, None)
    assert api_as("owner", "GET", path).json["project"] == changed
    assert [row["id"] for row in api_as("owner", "GET", PROJECTS_PATH).json["data"]] == [project["id"]]
    assert api_as("owner", "DELETE", path).json["success"] is True
    assert api_as("owner", "GET", path).status_code == 404
    assert api_as("owner", "DELETE", path).status_code == 404


def test_missing_project_fields_are_null(api_as, create_project):
    project = create_project()
    assert (project["description"], project["color"]) == (None, None)


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
def test_invalid_project_fields_are_refused(api_as, create_project, body, field):
    create_project("Taken")
    answer = api_as("owner", "POST", PROJECTS_PATH, json=body)
    assert (answer.status_code, list(answer.json["errors"])) == (422, [field])


def test_instance_is_assigned_and_removed_by_null(api_as, cast, create_project):
    project, instance, other = create_project(), cast.instance(), cast.instance()
    path = f"/api/instance/{instance.id}"
    assert api_as("owner", "GET", path).json["project_id"] is None
    assert assign_instances(api_as, project["id"], instance).json["success"] is True
    assert api_as("owner", "GET", path).json["project_id"] == project["id"]
    rows = api_as("owner", "GET", f"/api/instances?project_id={project['id']}").json["data"]
    assert [(row["id"], row["project_id"]) for row in rows] == [(instance.id, project["id"])]
    shown = api_as("owner", "GET", f"/api/project/{project['id']}").json
    assert [row["id"] for row in shown["instances"]["data"]] == [instance.id]
    assert api_as("owner", "GET", PROJECTS_PATH).json["data"][0]["instances"] == 1
    available = api_as("owner", "GET", f"/api/project/{project['id']}/available-resources").json["data"]
    assert [row["resource_id"] for row in available] == [other.id]
    assign_instances(api_as, None, instance)
    assert api_as("owner", "GET", path).json["project_id"] is None


def test_bulk_assign_is_all_or_nothing(api_as, cast, create_project):
    project, own_instances, foreign = create_project(), [cast.instance(), cast.instance()], cast.instance("outsider")

    def bulk_assign(*rows):
        resources = [{"resource_type": "instance", "resource_id": row.id} for row in rows]
        body = {"resources": resources, "project_id": project["id"]}
        return api_as("owner", "POST", "/api/project/bulk-assign", json=body)

    refused = bulk_assign(*own_instances, foreign)
    assert (refused.status_code, list(refused.json["errors"])) == (422, ["resource_id"])
    assert "not found" in refused.json["message"]
    assert api_as("owner", "GET", f"/api/instances?project_id={project['id']}").json["total"] == 0
    assert bulk_assign(*own_instances).status_code == 200
    assert api_as("owner", "GET", f"/api/instances?project_id={project['id']}").json["total"] == 2
    body = {"resources": [], "project_id": None}
    assert api_as("owner", "POST", "/api/project/bulk-assign", json=body).status_code == 422


@pytest.mark.parametrize("kind", ["vpc", "load_balancer", "s3_bucket", "managed_database", "planet"])
def test_unsupported_resource_type_is_refused(api_as, create_project, kind):
    body = {"resource_type": kind, "resource_id": "x", "project_id": create_project()["id"]}
    answer = api_as("owner", "POST", ASSIGN_PATH, json=body)
    assert (answer.status_code, list(answer.json["errors"])) == (422, ["resource_type"])


def test_available_resources_require_view_permission(api_as, cast, create_project, add_member):
    project, _ = create_project(), cast.instance()
    add_member("sorter", ["projects.view", "projects.manage"])
    answer = api_as("sorter", "GET", f"/api/project/{project['id']}/available-resources")
    assert (answer.status_code, answer.json["total"]) == (200, 0)


def test_project_of_other_account_is_not_found(api_as, cast, create_project):
    project, foreign = create_project(), cast.instance("outsider")
    for method, end in (("GET", ""), ("PATCH", ""), ("DELETE", ""), ("GET", "/available-resources")):
        body = {"name": "x"} if method == "PATCH" else None
        assert api_as("outsider", method, f"/api/project/{project['id']}{end}", json=body).status_code == 404
    answer = assign_instances(api_as, project["id"], foreign, caller="outsider")
    assert (answer.status_code, list(answer.json["errors"])) == (422, ["project_id"])
    assert api_as("outsider", "GET", PROJECTS_PATH).json["total"] == 0
    assert create_project(caller="outsider")["name"] == project["name"]


def test_project_deletion_keeps_instances_and_removes_grants(api_as, cast, create_project, add_member):
    project, instance = create_project(), cast.instance()
    assign_instances(api_as, project["id"], instance)
    member = add_member("shopper", VIEW_PERMISSIONS, "projects")
    session.add(ResourceGrant(member_id=member.id, resource_id=project["id"], resource_type="project"))
    session.commit()
    assert api_as("shopper", "GET", "/api/instances").json["total"] == 1
    api_as("owner", "DELETE", f"/api/project/{project['id']}")
    assert session.get(Instance, instance.id).project_id is None
    assert api_as("shopper", "GET", "/api/instances").json["total"] == 0


def test_member_assigns_only_accessible_resources(api_as, cast, create_project, add_member):
    project, own_instance, other = create_project(), cast.instance(), cast.instance()
    member = add_member("sorter", [*VIEW_PERMISSIONS, "projects.manage"], "chosen", [own_instance])
    assert assign_instances(api_as, project["id"], own_instance, caller="sorter").status_code == 422
    own = create_project("Own", caller="sorter")
    assert assign_instances(api_as, own["id"], own_instance, caller="sorter").status_code == 200
    assert assign_instances(api_as, own["id"], other, caller="sorter").status_code == 422
    assert api_as("sorter", "GET", PROJECTS_PATH).json["total"] == 1
    assert {grant.resource_type for grant in member.grants} == {"instance", "project"}


def test_project_list_query_count_is_constant(api_as, cast, create_project, queries):
    assign_instances(api_as, create_project()["id"], cast.instance())
    api_as("owner", "GET", PROJECTS_PATH)
    queries.clear()
    api_as("owner", "GET", PROJECTS_PATH)
    few = len(queries)
    for number in range(10):
        create_project(f"Project {number}")
    api_as("owner", "GET", PROJECTS_PATH)
    queries.clear()
    assert api_as("owner", "GET", PROJECTS_PATH).json["total"] == 11
    assert len(queries) == few


def test_project_hides_instances_without_view_permission(api_as, cast, create_project, add_member):
    project = create_project()
    assign_instances(api_as, project["id"], cast.instance())
    add_member("sorter", ["projects.view"])
    shown = api_as("sorter", "GET", f"/api/project/{project['id']}").json
    assert (shown["project"]["id"], "instances" in shown) == (project["id"], False)
