"""Volumes in projects."""

from panel.core.db import session
from panel.models import Volume
from tests.projects.test_api import ASSIGN, project  # noqa: F401  (a fixture)
from tests.team.conftest import VIEW_PERMISSIONS
from tests.volumes.conftest import billing_enabled, call_storage_api, place, plans, volume  # noqa: F401  (fixtures)


def assign(as_, project_id, found, who="owner"):
    body = {"resource_type": "volume", "resource_id": found.id, "project_id": project_id}
    return as_(who, "POST", ASSIGN, json=body)


def test_a_volume_goes_into_a_project_and_out_of_it(api_as, volume, project):
    made = project()
    assert assign(api_as, made["id"], volume).status_code == 200
    assert session.get(Volume, volume.id).project_id == made["id"]
    assert assign(api_as, None, volume).status_code == 200
    assert session.get(Volume, volume.id).project_id is None


def test_what_can_be_put_there_is_listed_together(api_as, cast, volume, project):
    made, instance = project(), cast.instance()
    path = f"/api/project/{made['id']}/available-resources"
    rows = api_as("owner", "GET", path).json["data"]
    assert [(row["resource_type"], row["resource_id"]) for row in rows] == [
        ("instance", instance.id),
        ("volume", volume.id),
    ]
    assert rows[1]["name"] == volume.name
    assign(api_as, made["id"], volume)
    assert [row["resource_type"] for row in api_as("owner", "GET", path).json["data"]] == ["instance"]


def test_others_volumes_are_not_found(api_as, cast, volume, project):
    answer = assign(api_as, project(who="outsider")["id"], volume, "outsider")
    assert (answer.status_code, list(answer.json["errors"])) == (422, ["resource_id"])


def test_who_may_not_see_volumes_is_not_offered_them(api_as, volume, project, add_member):
    made = project()
    add_member("sorter", [each for each in VIEW_PERMISSIONS if each != "volumes.view"] + ["projects.view"])
    assert api_as("sorter", "GET", f"/api/project/{made['id']}/available-resources").json["total"] == 0


def test_a_volume_is_made_in_a_project_and_moved_on_its_page(browser_as, call_storage_api, place, project, run_tasks):
    made, browser = project(), browser_as("owner")
    assert f'<option value="{made["id"]}" selected' in browser.get(f"/volumes/new?project={made['id']}").text
    answer = browser.post("/volumes/new", data={"name": "data", "project_id": made["id"], **place})
    path = answer.headers["Location"]
    run_tasks()
    row = session.get(Volume, path.rpartition("/")[2])
    assert row.project_id == made["id"]
    assert f'<option value="{made["id"]}" selected' in browser.get(path).text
    out = {"resource_type": "volume", "resource_id": row.id, "project_id": ""}
    assert browser.post("/projects/assign", data=out).status_code == 303
    assert session.get(Volume, row.id).project_id is None
    foreign = project(name="Theirs", who="outsider")
    refused = browser.post("/volumes/new", data={"name": "x", "project_id": foreign["id"], **place})
    assert (refused.status_code, 'id="wrong-project_id"' in refused.text) == (422, True)


def test_the_list_is_filtered_by_project(api_as, browser_as, call_storage_api, place, volume, project, run_tasks):
    made = project()
    other = call_storage_api("POST", "volumes", name="elsewhere", **place).json["volume"]["id"]
    run_tasks()
    assert assign(api_as, made["id"], volume).status_code == 200
    page = browser_as("owner").get(f"/volumes?project={made['id']}").text
    assert (volume.id in page, other in page) == (True, False)
    empty = project(name="Empty")
    assert "No volume matches" in browser_as("owner").get(f"/volumes?project={empty['id']}").text
    assert 'id="project"' not in browser_as("outsider").get("/volumes").text
    assert volume.id not in browser_as("outsider").get(f"/volumes?project={made['id']}").text
    found = call_storage_api("GET", f"volumes?project_id={made['id']}").json
    assert [each["id"] for each in found["data"]] == [volume.id]


def test_a_project_shows_its_volumes_and_adds_them(browser_as, cast, volume, project):
    made, browser, instance = project(), browser_as("owner"), cast.instance()
    path = f"/projects/{made['id']}"
    sent = {"resource_id": instance.id, "volume_id": volume.id}
    assert f'name="volume_id" value="{volume.id}"' in browser.get(path).text
    assert browser.post(f"{path}/add", data=sent).headers["Location"] == path
    page = browser.get(path).text
    assert (f'<tr id="volume-{volume.id}"' in page, f'<tr id="instance-{instance.id}"' in page) == (True, True)
    assert 'data-label="Volumes" class="text-end figures">1<' in browser.get("/projects").text


def test_members_without_volumes_are_told_so(browser_as, volume, project, add_member):
    made = project()
    add_member("sorter", [each for each in VIEW_PERMISSIONS if each != "volumes.view"] + ["projects.view"])
    page = browser_as("sorter").get(f"/projects/{made['id']}").text
    assert ("it needs volumes.view" in page, volume.id in page) == (True, False)
