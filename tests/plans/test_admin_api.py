"""Plans, plan groups and locations in the admin API."""

import pytest

from panel.core.db import session
from panel.models import Plan, PlanGroup
from panel.services import catalog
from tests.support.cast import UNKNOWN_ID

PLANS_PATH, PLAN_GROUPS_PATH = "/api/v1/instance/plans", "/api/v1/cloud-service/plan-groups"
PLAN_SIZE = {"cpu_cores": 2, "ram": 2048, "storage": 20}


@pytest.fixture
def group(cast):
    return cast.plan.plan_group_id


def test_created_plan_is_offered_until_disabled(api_as, cast, group):
    answer = api_as("admin", "POST", PLANS_PATH, json={"plan_group_id": group, "name": "M", "price": 8.25, **PLAN_SIZE})
    assert answer.status_code == 200
    plan = answer.json["data"]
    assert (plan["price"], plan["ipv4"], plan["enabled"], plan["plan_group"]["name"]) == (8.25, 1, True, "standard")
    offered = api_as("owner", "GET", f"/api/cloud-service/location/{cast.location.id}/plan-group/{group}/plans").json
    assert plan["id"] in [row["id"] for row in offered]
    api_as("admin", "PATCH", f"/api/v1/instance/plan/{plan['id']}", json={"enabled": False})
    offered = api_as("owner", "GET", f"/api/cloud-service/location/{cast.location.id}/plan-group/{group}/plans").json
    assert plan["id"] not in [row["id"] for row in offered]


INVALID_FIELDS = {
    "name": ["", "S", "x" * 65, None],
    "plan_group_id": [UNKNOWN_ID, None, 5],
    "cpu_cores": [0, 513, "2", 1.5, True],
    "ram": [63, -1],
    "storage": [0],
    "ipv4": [17, -1],
    "price": [-1, "4", True, None],
    "enabled": ["true", 1, None],
}


@pytest.mark.parametrize("field", INVALID_FIELDS)
def test_invalid_plan_values_are_field_errors(api_as, group, field):
    """ERR-07"""
    for value in INVALID_FIELDS[field]:
        body = {"plan_group_id": group, "name": "M", **PLAN_SIZE, field: value}
        answer = api_as("admin", "POST", PLANS_PATH, json=body)
        assert (answer.status_code, answer.json["errors"].keys()) == (422, {field}), value
    assert session.query(Plan).count() == 1


def test_plan_change_keeps_size_of_existing_instances(api_as, cast):
    instance = cast.instance()
    path = f"/api/v1/instance/plan/{cast.plan.id}"
    data = api_as("admin", "PATCH", path, json={"ram": 4096}).json["data"]
    assert (data["ram"], data["cpu_cores"], data["name"]) == (4096, cast.plan.cpu_cores, "S")
    assert api_as("admin", "GET", f"/api/v1/instance/{instance.id}").json["data"]["ram"] == 512


def test_plan_in_use_cannot_be_deleted(api_as, cast, group):
    cast.instance()
    refused = api_as("admin", "DELETE", f"/api/v1/instance/plan/{cast.plan.id}")
    assert (refused.status_code, "Turn it off" in refused.json["message"]) == (409, True)
    refused = api_as("admin", "DELETE", f"/api/v1/cloud-service/plan-group/{group}")
    assert (refused.status_code, "Plans belong" in refused.json["message"]) == (409, True)


def test_unused_plan_and_plan_group_are_deleted(api_as):
    group = api_as("admin", "POST", PLAN_GROUPS_PATH, json={"name": "old"}).json["data"]["id"]
    plan = api_as("admin", "POST", PLANS_PATH, json={"plan_group_id": group, "name": "M", **PLAN_SIZE}).json["data"][
        "id"
    ]
    for path in (f"/api/v1/instance/plan/{plan}", f"/api/v1/cloud-service/plan-group/{group}"):
        assert api_as("admin", "DELETE", path).status_code == 200
        assert api_as("admin", "GET", path).status_code == 404


def test_plan_moves_to_another_group(api_as, cast):
    other = api_as("admin", "POST", PLAN_GROUPS_PATH, json={"name": "other"}).json["data"]["id"]
    api_as("admin", "POST", PLANS_PATH, json={"plan_group_id": other, "name": "S", **PLAN_SIZE})
    path = f"/api/v1/instance/plan/{cast.plan.id}"
    taken = api_as("admin", "PATCH", path, json={"plan_group_id": other})
    assert (taken.status_code, taken.json["errors"].keys()) == (422, {"name"})
    moved = api_as("admin", "PATCH", path, json={"plan_group_id": other, "name": "T"})
    assert moved.json["data"]["plan_group"]["name"] == "other"


def test_plan_group_is_offered_in_its_locations_only(api_as, cast):
    created = api_as(
        "admin", "POST", PLAN_GROUPS_PATH, json={"name": "gpu", "hypervisor_groups": [cast.location.id], "position": 3}
    )
    assert created.json["data"]["display_name"] == "gpu"
    path = f"/api/v1/cloud-service/plan-group/{created.json['data']['id']}"
    location_path = f"/api/v1/cloud-service/location/{cast.location.id}/plan-groups"
    assert [group["name"] for group in api_as("admin", "GET", location_path).json["data"]] == ["standard", "gpu"]
    data = api_as("admin", "PATCH", path, json={"hypervisor_groups": []}).json["data"]
    assert (data["hypervisor_groups"], data["position"]) == ([], 3)
    assert [group["name"] for group in api_as("admin", "GET", location_path).json["data"]] == ["standard"]
    wrong = api_as("admin", "PATCH", path, json={"hypervisor_groups": [UNKNOWN_ID]})
    assert (wrong.status_code, wrong.json["errors"].keys()) == (422, {"hypervisor_groups"})
    assert api_as("admin", "PATCH", path, json={"name": "standard"}).status_code == 422
    assert api_as("admin", "GET", f"{path}/plans").json["data"] == []


def test_location_shows_its_hypervisor_group(api_as, cast):
    data = api_as("admin", "GET", f"/api/v1/cloud-service/location/{cast.location.id}").json["data"]
    assert (data["display_name"], data["is_available"], data["enabled"]) == ("Laboratory", True, True)
    api_as("admin", "PATCH", f"/api/v1/hypervisor/{cast.node.id}", json={"locked": True})
    assert api_as("admin", "GET", "/api/v1/cloud-service/locations").json["data"][0]["is_available"] is False


@pytest.mark.parametrize("path", [PLANS_PATH, PLAN_GROUPS_PATH])
def test_plan_lists_take_constant_number_of_queries(api_as, cast, queries, path):
    api_as("admin", "GET", path)
    session.expunge_all()
    queries.clear()
    api_as("admin", "GET", path)
    few = len(queries)
    for number in range(30):
        group = catalog.create_plan_group(name=f"g{number}", hypervisor_groups=[session.merge(cast.location)])
        catalog.create_plan(group, name="S", **PLAN_SIZE)
    session.commit()
    session.expunge_all()
    queries.clear()
    assert len(api_as("admin", "GET", path).json["data"]) == 31
    assert len(queries) == few


@pytest.mark.parametrize("path", ["instance/plan", "cloud-service/plan-group", "cloud-service/location"])
def test_unknown_plan_group_and_location_ids_answer_404(api_as, path):
    """ENV-10"""
    assert api_as("admin", "GET", f"/api/v1/{path}/{UNKNOWN_ID}").status_code == 404
    assert session.query(PlanGroup).count() == 1
