"""Volumes in projects."""

from panel.db import session
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
