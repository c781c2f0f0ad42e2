"""Volumes in projects."""

from panel.core.db import session
from panel.models import Volume
from tests.projects.test_api import ASSIGN, project  # noqa: F401  (a fixture)
from tests.team.conftest import VIEWS
from tests.volumes.conftest import billed, call, place, plans, volume  # noqa: F401  (fixtures)


def assign(as_, project_id, found, who="owner"):
    body = {"resource_type": "volume", "resource_id": found.id, "project_id": project_id}
    return as_(who, "POST", ASSIGN, json=body)


def test_a_volume_goes_into_a_project_and_out_of_it(as_, volume, project):  # noqa: F811
    made = project()
    assert assign(as_, made["id"], volume).status_code == 200
    assert session.get(Volume, volume.id).project_id == made["id"]
    assert assign(as_, None, volume).status_code == 200
    assert session.get(Volume, volume.id).project_id is None


def test_what_can_be_put_there_is_listed_together(as_, cast, volume, project):  # noqa: F811
    made, instance = project(), cast.instance()
    path = f"/api/project/{made['id']}/available-resources"
    rows = as_("owner", "GET", path).json["data"]
    assert [(row["resource_type"], row["resource_id"]) for row in rows] == [
        ("instance", instance.id),
        ("volume", volume.id),
    ]
    assert rows[1]["name"] == volume.name
    assign(as_, made["id"], volume)
    assert [row["resource_type"] for row in as_("owner", "GET", path).json["data"]] == ["instance"]


def test_others_volumes_are_not_found(as_, cast, volume, project):  # noqa: F811
    answer = assign(as_, project(who="outsider")["id"], volume, "outsider")
    assert (answer.status_code, list(answer.json["errors"])) == (422, ["resource_id"])


def test_who_may_not_see_volumes_is_not_offered_them(as_, volume, project, joined):  # noqa: F811
    made = project()
    joined("sorter", [each for each in VIEWS if each != "volumes.view"] + ["projects.view"])
    assert as_("sorter", "GET", f"/api/project/{made['id']}/available-resources").json["total"] == 0


def test_a_volume_is_made_in_a_project_and_moved_on_its_page(browse, call, place, project, work):  # noqa: F811
    made, browser = project(), browse("owner")
    assert f'<option value="{made["id"]}" selected' in browser.get(f"/volumes/new?project={made['id']}").text
    answer = browser.post("/volumes/new", data={"name": "data", "project_id": made["id"], **place})
    path = answer.headers["Location"]
    work()
    row = session.get(Volume, path.rpartition("/")[2])
    assert row.project_id == made["id"]
    assert f'<option value="{made["id"]}" selected' in browser.get(path).text
    out = {"resource_type": "volume", "resource_id": row.id, "project_id": ""}
    assert browser.post("/projects/assign", data=out).status_code == 303
    assert session.get(Volume, row.id).project_id is None
    foreign = project(name="Theirs", who="outsider")
    refused = browser.post("/volumes/new", data={"name": "x", "project_id": foreign["id"], **place})
    assert (refused.status_code, 'id="wrong-project_id"' in refused.text) == (422, True)


def test_the_list_is_filtered_by_project(as_, browse, call, place, volume, project, work):  # noqa: F811
    made = project()
    other = call("POST", "volumes", name="elsewhere", **place).json["volume"]["id"]
    work()
    assert assign(as_, made["id"], volume).status_code == 200
    page = browse("owner").get(f"/volumes?project={made['id']}").text
    assert (volume.id in page, other in page) == (True, False)
    empty = project(name="Empty")
    assert "No volume matches" in browse("owner").get(f"/volumes?project={empty['id']}").text
    assert 'id="project"' not in browse("outsider").get("/volumes").text
    assert volume.id not in browse("outsider").get(f"/volumes?project={made['id']}").text
    found = call("GET", f"volumes?project_id={made['id']}").json
    assert [each["id"] for each in found["data"]] == [volume.id]


def test_a_project_shows_its_volumes_and_adds_them(browse, cast, volume, project):  # noqa: F811
    made, browser, instance = project(), browse("owner"), cast.instance()
    path = f"/projects/{made['id']}"
    sent = {"resource_id": instance.id, "volume_id": volume.id}
    assert f'name="volume_id" value="{volume.id}"' in browser.get(path).text
    assert browser.post(f"{path}/add", data=sent).headers["Location"] == path
    page = browser.get(path).text
    assert (f'<tr id="volume-{volume.id}"' in page, f'<tr id="instance-{instance.id}"' in page) == (True, True)
    assert 'data-label="Volumes" class="text-end figures">1<' in browser.get("/projects").text


def test_members_without_volumes_are_told_so(browse, volume, project, joined):  # noqa: F811
    made = project()
    joined("sorter", [each for each in VIEWS if each != "volumes.view"] + ["projects.view"])
    page = browse("sorter").get(f"/projects/{made['id']}").text
    assert ("it needs volumes.view" in page, volume.id in page) == (True, False)
