"""Change of an instance's plan through the billing API."""

import pytest

from panel.core.db import session
from panel.models import Hypervisor
from panel.services import catalog


@pytest.fixture
def larger_plan(cast):
    plan = catalog.create_plan(cast.plan.group, name="L", cpu_cores=2, ram=1024, storage=20, price=8)
    session.commit()
    return plan


@pytest.fixture
def sold_instance(cast):
    instance = cast.instance(billing_mode="external")
    instance.deployed = True
    session.commit()
    return instance


def change_plan(api_as, instance, plan, caller="billing"):
    return api_as(caller, "POST", f"/api/v1/billing/instance/{instance.id}/change-plan", json={"plan_id": plan.id})


def test_billing_changes_instance_to_larger_plan(api_as, sold_instance, larger_plan):
    answer = change_plan(api_as, sold_instance, larger_plan)
    assert answer.status_code == 200
    assert answer.json["data"]["task_id"]
    assert (sold_instance.plan_id, sold_instance.cpu_cores, sold_instance.storage) == (larger_plan.id, 2, 20)


def test_plan_change_is_refused_without_capacity_or_for_smaller_disk(api_as, cast, sold_instance, larger_plan):
    small = catalog.create_plan(cast.plan.group, name="XS", cpu_cores=1, ram=512, storage=5, price=1)
    session.commit()
    answer = change_plan(api_as, sold_instance, small)
    assert (answer.status_code, list(answer.json["errors"])) == (422, ["plan_id"])
    session.get(Hypervisor, sold_instance.hypervisor_id).memory_mb = 600
    session.commit()
    answer = change_plan(api_as, sold_instance, larger_plan)
    assert (answer.status_code, answer.json["reason"]) == (422, "resources_not_sufficient")
    assert sold_instance.plan_id == cast.plan.id


def test_plan_change_requires_billing_token(api_as, sold_instance, larger_plan):
    for caller in ("admin", "owner"):
        assert change_plan(api_as, sold_instance, larger_plan, caller).status_code in (401, 403)
