"""A billing system moves what it sells to another plan."""

import pytest

from panel.core.db import session
from panel.models import Hypervisor
from panel.services import catalog


@pytest.fixture
def larger(cast):
    made = catalog.create_plan(cast.plan.group, name="L", cpu_cores=2, ram=1024, storage=20, price=8)
    session.commit()
    return made


@pytest.fixture
def sold(cast):
    made = cast.instance(billing_mode="external")
    made.deployed = True
    session.commit()
    return made


def change(as_, instance, plan, who="billing"):
    return as_(who, "POST", f"/api/v1/billing/instance/{instance.id}/change-plan", json={"plan_id": plan.id})


def test_an_instance_moves_to_a_larger_plan(as_, sold, larger):
    answer = change(as_, sold, larger)
    assert answer.status_code == 200
    assert answer.json["data"]["task_id"]
    assert (sold.plan_id, sold.cpu_cores, sold.storage) == (larger.id, 2, 20)


def test_its_refusals_are_those_of_every_change(as_, cast, sold, larger):
    small = catalog.create_plan(cast.plan.group, name="XS", cpu_cores=1, ram=512, storage=5, price=1)
    session.commit()
    answer = change(as_, sold, small)
    assert (answer.status_code, list(answer.json["errors"])) == (422, ["plan_id"])
    session.get(Hypervisor, sold.hypervisor_id).memory_mb = 600
    session.commit()
    answer = change(as_, sold, larger)
    assert (answer.status_code, answer.json["reason"]) == (422, "resources_not_sufficient")
    assert sold.plan_id == cast.plan.id


def test_only_billing_tokens_open_it(as_, sold, larger):
    for who in ("admin", "owner"):
        assert change(as_, sold, larger, who).status_code in (401, 403)
