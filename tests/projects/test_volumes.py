"""Volumes in projects."""

from panel.core.db import session
from panel.models import Volume
from tests.projects.paths import ASSIGN_PATH
from tests.support.team import VIEW_PERMISSIONS
from tests.support.volumes import billing_enabled, call_storage_api, plans, volume, volume_body  # noqa: F401  (fixtures)


def assign_volume(as_, project_id, volume, caller="owner"):
    body = {"resource_type": "volume", "resource_id": volume.id, "project_id": project_id}
    return as_(caller, "POST", ASSIGN_PATH, json=body)


def test_volume_is_assigned_and_removed(api_as, volume, create_project):
    project = create_project()
    assert assign_volume(api_as, project["id"], volume).status_code == 200
    assert session.get(Volume, volume.id).project_id == project["id"]
    assert assign_volume(api_as, None, volume).status_code == 200
    assert session.get(Volume, volume.id).project_id is None


def test_available_resources_list_instances_and_volumes(api_as, cast, volume, create_project):
    project, instance = create_project(), cast.instance()
    path = f"/api/project/{project['id']}/available-resources"
    rows = api_as("owner", "GET", path).json["data"]
    assert [(row["resource_type"], row["resource_id"]) for row in rows] == [
        ("instance", instance.id),
        ("volume", volume.id),
    ]
    assert rows[1]["name"] == volume.name
    assign_volume(api_as, project["id"], volume)
    assert [row["resource_type"] for row in api_as("owner", "GET", path).json["data"]] == ["instance"]


def test_volume_of_other_account_cannot_be_assigned(api_as, cast, volume, create_project):
    answer = assign_volume(api_as, create_project(caller="outsider")["id"], volume, "outsider")
    assert (answer.status_code, list(answer.json["errors"])) == (422, ["resource_id"])


def test_available_volumes_require_view_permission(api_as, volume, create_project, add_member):
    project = create_project()
    add_member(
        "sorter", [permission for permission in VIEW_PERMISSIONS if permission != "volumes.view"] + ["projects.view"]
    )
    assert api_as("sorter", "GET", f"/api/project/{project['id']}/available-resources").json["total"] == 0


def test_volume_pages_create_in_project_and_remove(
    browser_as, call_storage_api, volume_body, create_project, run_tasks
):
    project, browser = create_project(), browser_as("owner")
    assert f'<option value="{project["id"]}" selected' in browser.get(f"/volumes/new?project={project['id']}").text
    answer = browser.post("/volumes/new", data={"name": "data", "project_id": project["id"], **volume_body})
    path = answer.headers["Location"]
    run_tasks()
    row = session.get(Volume, path.rpartition("/")[2])
    assert row.project_id == project["id"]
    assert f'<option value="{project["id"]}" selected' in browser.get(path).text
    out = {"resource_type": "volume", "resource_id": row.id, "project_id": ""}
    assert browser.post("/projects/assign", data=out).status_code == 303
    assert session.get(Volume, row.id).project_id is None
    foreign = create_project(name="Theirs", caller="outsider")
    refused = browser.post("/volumes/new", data={"name": "x", "project_id": foreign["id"], **volume_body})
    assert (refused.status_code, 'id="wrong-project_id"' in refused.text) == (422, True)


def test_volume_list_filters_by_project(
    api_as, browser_as, call_storage_api, volume_body, volume, create_project, run_tasks
):
    project = create_project()
    other = call_storage_api("POST", "volumes", name="elsewhere", **volume_body).json["volume"]["id"]
    run_tasks()
    assert assign_volume(api_as, project["id"], volume).status_code == 200
    page = browser_as("owner").get(f"/volumes?project={project['id']}").text
    assert (volume.id in page, other in page) == (True, False)
    empty = create_project(name="Empty")
    assert "No volume matches" in browser_as("owner").get(f"/volumes?project={empty['id']}").text
    assert 'id="project"' not in browser_as("outsider").get("/volumes").text
    assert volume.id not in browser_as("outsider").get(f"/volumes?project={project['id']}").text
    answer = call_storage_api("GET", f"volumes?project_id={project['id']}").json
    assert [listed_volume["id"] for listed_volume in answer["data"]] == [volume.id]


def test_project_page_lists_and_adds_volumes(browser_as, cast, volume, create_project):
    project, browser, instance = create_project(), browser_as("owner"), cast.instance()
    path = f"/projects/{project['id']}"
    sent = {"resource_id": instance.id, "volume_id": volume.id}
    assert f'name="volume_id" value="{volume.id}"' in browser.get(path).text
    assert browser.post(f"{path}/add", data=sent).headers["Location"] == path
    page = browser.get(path).text
    assert (f'<tr id="volume-{volume.id}"' in page, f'<tr id="instance-{instance.id}"' in page) == (True, True)
    assert 'data-label="Volumes" class="text-end tabular-nums">1<' in browser.get("/projects").text


def test_project_page_hides_volumes_without_view_permission(browser_as, volume, create_project, add_member):
    project = create_project()
    add_member(
        "sorter", [permission for permission in VIEW_PERMISSIONS if permission != "volumes.view"] + ["projects.view"]
    )
    page = browser_as("sorter").get(f"/projects/{project['id']}").text
    assert ("it needs volumes.view" in page, volume.id in page) == (True, False)
