"""Volume plans with billing enabled, and a volume."""

import pytest

from panel.core.db import session
from panel.models import Volume
from panel.services import settings, volume_plans


@pytest.fixture(autouse=True)
def billing_enabled(rolled_back_app):
    settings.update({"billing_enabled": True})


@pytest.fixture
def plans(rolled_back_app):
    """Volume plans by name: four of one class, and `other` of another class."""
    ssd, disk = volume_plans.create_group(name="ssd"), volume_plans.create_group(name="hdd")
    sizes = {"small": (10, 2), "large": (20, 4), "huge": (30, 6), "cheap": (10, 1)}
    plans_by_name = {
        name: volume_plans.create(ssd, name=name, size=size, price=price) for name, (size, price) in sizes.items()
    }
    plans_by_name["other"] = volume_plans.create(disk, name="other", size=50, price=1)
    session.commit()
    return plans_by_name


@pytest.fixture
def volume_body(cast, plans):
    return {"volume_plan_id": plans["small"].id, "hypervisor_group_id": cast.location.id}


@pytest.fixture
def call_storage_api(api_as):
    """Return a function that calls the routes below /api/storage."""

    def call(method, path, caller="owner", **body):
        return api_as(caller, method, f"/api/storage/{path}", **({"json": body} if body else {}))

    return call


@pytest.fixture
def volume(call_storage_api, volume_body, run_tasks):
    """An available volume of the owner."""
    volume_id = call_storage_api("POST", "volumes", name="data", **volume_body).json["volume"]["id"]
    run_tasks()
    return session.get(Volume, volume_id)
