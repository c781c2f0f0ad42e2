"""Creating by self-provisioning: the same machines, counted apart, charged as their account is."""

from datetime import timedelta

import pytest
from sqlalchemy import select

from panel.core import clock
from panel.core.db import session
from panel.models import Instance, Rental, UsageHour
from panel.services import settings, usage


@pytest.fixture
def made(as_, cast):
    wanted = {"location_id": cast.location.id, "plan_id": cast.plan.id, "hostname": "own.example.com"}
    answer = as_("owner", "POST", "/api/self-provisioning/instances", json=wanted)
    assert answer.json.keys() == {"success", "message", "instance"}
    return answer.json["instance"]


def test_an_instance_is_made_deployed_and_destroyed(as_, cast, made, work):
    """INS-68"""
    assert (made["hostname"], made["state"]) == ("own.example.com", "pending")
    assert [row["id"] for row in as_("owner", "GET", "/api/instances").json["data"]] == [made["id"]]
    as_("owner", "POST", f"/api/instance/{made['id']}/deploy", json={"image_id": cast.image.id})
    work()
    assert session.get(Instance, made["id"]).billing_mode == "self_provisioned"
    path = f"/api/self-provisioning/instances/{made['id']}"
    assert as_("outsider", "DELETE", path).status_code == 404
    assert as_("owner", "DELETE", path).json["task_id"]
    work()
    assert as_("owner", "GET", f"/api/instance/{made['id']}").status_code == 404


def test_protection_stops_its_destroy(as_, made):
    """INS-21"""
    as_("owner", "PATCH", f"/api/instance/{made['id']}", json={"protection_enabled": True})
    answer = as_("owner", "DELETE", f"/api/self-provisioning/instances/{made['id']}")
    assert (answer.status_code, answer.json["reason"]) == (409, "protection_enabled")


def test_what_is_used_is_counted_apart(as_, cast, made):
    cast.instance()
    used = as_("owner", "GET", "/api/self-provisioning/resources").json["resources"]
    assert used == {"instances": 1, "cpu_cores": 1, "ram": 512, "storage": 10}
    none = as_("outsider", "GET", "/api/self-provisioning/resources").json["resources"]
    assert none == {"instances": 0, "cpu_cores": 0, "ram": 0, "storage": 0}


@pytest.mark.parametrize("unbilled", [False, True])
def test_it_is_charged_as_its_account_is(cast, made, unbilled):
    """A way to create is no way around the bill."""
    settings.update({"billing_enabled": True})
    cast.owner.self_provisioning = unbilled
    rental = session.scalars(select(Rental)).one()
    rental.first_hour = rental.counted_until = usage.hour_of(clock.now()) - timedelta(hours=2)
    session.commit()
    usage.count()
    hours = session.scalars(select(UsageHour)).all()
    assert len(hours) == 2
    assert all((hour.charge > 0) is not unbilled for hour in hours)
