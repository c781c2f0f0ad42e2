"""Self-provisioned instances: counted separately, and billed like their account."""

from datetime import timedelta

import pytest
from sqlalchemy import select

from panel.core import clock
from panel.core.db import session
from panel.models import Instance, MeteringRecord, UsageHour
from panel.services import settings, usage


@pytest.fixture
def created_instance(api_as, cast):
    body = {"location_id": cast.location.id, "plan_id": cast.plan.id, "hostname": "own.example.com"}
    answer = api_as("owner", "POST", "/api/self-provisioning/instances", json=body)
    assert answer.json.keys() == {"success", "message", "instance"}
    return answer.json["instance"]


def test_self_provisioned_instance_is_deployed_and_destroyed(api_as, cast, created_instance, run_tasks):
    """INS-68"""
    assert (created_instance["hostname"], created_instance["state"]) == ("own.example.com", "pending")
    assert [row["id"] for row in api_as("owner", "GET", "/api/instances").json["data"]] == [created_instance["id"]]
    api_as("owner", "POST", f"/api/instance/{created_instance['id']}/deploy", json={"image_id": cast.image.id})
    run_tasks()
    assert session.get(Instance, created_instance["id"]).billing_mode == "self_provisioned"
    path = f"/api/self-provisioning/instances/{created_instance['id']}"
    assert api_as("outsider", "DELETE", path).status_code == 404
    assert api_as("owner", "DELETE", path).json["task_id"]
    run_tasks()
    assert api_as("owner", "GET", f"/api/instance/{created_instance['id']}").status_code == 404


def test_protected_self_provisioned_instance_is_not_destroyed(api_as, created_instance):
    """INS-21"""
    api_as("owner", "PATCH", f"/api/instance/{created_instance['id']}", json={"protection_enabled": True})
    answer = api_as("owner", "DELETE", f"/api/self-provisioning/instances/{created_instance['id']}")
    assert (answer.status_code, answer.json["reason"]) == (409, "protection_enabled")


def test_self_provisioned_resources_are_counted_separately(api_as, cast, created_instance):
    cast.instance()
    used = api_as("owner", "GET", "/api/self-provisioning/resources").json["resources"]
    assert used == {"instances": 1, "cpu_cores": 1, "ram": 512, "storage": 10}
    none = api_as("outsider", "GET", "/api/self-provisioning/resources").json["resources"]
    assert none == {"instances": 0, "cpu_cores": 0, "ram": 0, "storage": 0}


@pytest.mark.parametrize("unbilled", [False, True])
def test_self_provisioned_instance_is_billed_like_account(cast, created_instance, unbilled):
    """Self-provisioning does not bypass billing."""
    settings.update({"billing_enabled": True})
    cast.owner.self_provisioning = unbilled
    record = session.scalars(select(MeteringRecord)).one()
    record.first_hour = record.metered_until = usage.truncate_to_hour(clock.now()) - timedelta(hours=2)
    session.commit()
    usage.meter_hours()
    hours = session.scalars(select(UsageHour)).all()
    assert len(hours) == 2
    assert all((hour.charge > 0) is not unbilled for hour in hours)
