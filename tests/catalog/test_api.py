"""The catalog for customers: locations, plans and images, in the format of existing clients."""

from panel.core.db import session
from panel.models import Hypervisor, HypervisorGroup, Image, Plan, PlanGroup
from panel.services import catalog


def test_location_is_unavailable_during_maintenance(api_as, cast):
    row = api_as("owner", "GET", "/api/cloud-service/locations").json["data"][0]
    assert (row["name"], row["display_name"], row["country"], row["is_available"]) == ("lab", "Laboratory", "DE", True)
    session.get(Hypervisor, cast.node.id).maintenance = True
    session.commit()
    assert api_as("owner", "GET", "/api/cloud-service/locations").json["data"][0]["is_available"] is False


def test_disabled_location_is_not_offered(api_as, cast):
    """HVG-07"""
    instance = cast.instance()
    session.get(HypervisorGroup, cast.location.id).enabled = False
    session.commit()
    assert api_as("owner", "GET", "/api/cloud-service/locations").json["data"] == []
    assert api_as("owner", "GET", f"/api/cloud-service/location/{cast.location.id}/plan-groups").status_code == 404
    body = {"location_id": cast.location.id, "plan_id": cast.plan.id}
    assert list(api_as("owner", "POST", "/api/cloud-service/instances", json=body).json["errors"]) == ["location_id"]
    assert api_as("owner", "GET", f"/api/instance/{instance.id}").status_code == 200


def test_plan_groups_and_plans_are_plain_arrays(api_as, cast):
    groups = api_as("owner", "GET", f"/api/cloud-service/location/{cast.location.id}/plan-groups").json
    assert [group["name"] for group in groups] == ["standard"]
    path = f"/api/cloud-service/location/{cast.location.id}/plan-group/{groups[0]['id']}/plans"
    plan = api_as("owner", "GET", path).json[0]
    assert (plan["name"], plan["cpu_cores"], plan["ram"], plan["storage"], plan["price"]) == ("S", 1, 512, 10, 4.0)


def test_disabled_plan_cannot_be_ordered(api_as, cast):
    elsewhere = catalog.create_plan_group(name="elsewhere")
    hidden = catalog.create_plan(elsewhere, name="X", cpu_cores=1, ram=256, storage=1)
    session.get(Plan, cast.plan.id).enabled = False
    session.commit()
    for plan_id in (hidden.id, cast.plan.id):
        body = {"location_id": cast.location.id, "plan_id": plan_id}
        assert list(api_as("owner", "POST", "/api/cloud-service/instances", json=body).json["errors"]) == ["plan_id"]
    session.get(PlanGroup, cast.plan.plan_group_id).enabled = False
    session.commit()
    assert api_as("owner", "GET", f"/api/cloud-service/location/{cast.location.id}/plan-groups").json == []


def test_images_are_grouped_by_distribution(api_as, cast):
    answer = api_as("owner", "GET", "/api/images/search?search=").json
    (branch,) = answer["results"]
    assert branch["text"] == "Debian"
    assert branch["children"][0]["id"] == cast.image.id
    assert branch["children"][0]["text"] == "Debian 12 (tiny)"
    assert api_as("owner", "GET", "/api/images/search?search=TINY").json == answer
    assert api_as("owner", "GET", "/api/images/search?search=windows").json == {"results": []}


def test_images_of_others_and_appliances_are_hidden(api_as, cast):
    image = session.get(Image, cast.image.id)
    for change in (
        {"purpose": "user", "account_id": cast.outsider.id},
        {"purpose": "load_balancer"},
        {"enabled": False},
    ):
        for field, value in {"purpose": "general", "account_id": None, "enabled": True, **change}.items():
            setattr(image, field, value)
        session.commit()
        assert api_as("owner", "GET", "/api/images/search").json == {"results": []}
        body = {"image_id": image.id}
        answer = api_as("owner", "POST", f"/api/instance/{cast.instance().id}/deploy", json=body)
        assert list(answer.json["errors"]) == ["image_id"]


def test_instance_images_are_grouped_by_distribution(api_as, cast):
    images = api_as("owner", "GET", f"/api/instance/{cast.instance().id}/images").json
    assert [image["id"] for image in images["Debian"]] == [cast.image.id]
