"""Everybody's instances on the operators' pages."""

import re

import pytest

from panel.core.db import session
from panel.models import Hypervisor, Instance
from panel.services import hypervisors, instances
from panel.workflows import waiting
from tests.conftest import run_queued_calls
from tests.test_pages import PARTIAL_HEADERS

INSTANCES = "/admin/instances"
SCRIPT = {"Accept": "application/json"}


@pytest.fixture
def operator(browser_as):
    return browser_as("admin")


@pytest.fixture
def order(cast):
    return {"owner": "owner@example.com", "location_id": cast.location.id, "plan_id": cast.plan.id}


@pytest.fixture
def inline_workers(monkeypatch):
    """Somebody works while a request waits."""
    monkeypatch.setattr(waiting.time, "sleep", lambda _: run_queued_calls())


def test_the_list_has_everybodys_with_owner_and_node(operator, cast):
    mine, others = cast.instance("owner", display_name="Shop front"), cast.instance("outsider")
    shown = lambda query: re.findall(r'<tr id="instance-(\S+)"', operator.get(f"{INSTANCES}?{query}").text)  # noqa: E731
    assert shown("") == [others.id, mine.id]
    assert shown("search=shop") == [mine.id]
    assert shown("state=running") == []
    assert shown("state=pending") == [others.id, mine.id]
    assert shown(f"node={cast.node.id}") == [others.id, mine.id]
    assert shown("node=elsewhere") == []
    page = operator.get(INSTANCES).text
    assert "outsider@example.com" in page
    assert f"/admin/hypervisors/{cast.node.id}" in page


def test_an_instance_is_created_and_its_password_shown_once(operator, cast, order, inline_workers):
    answer = operator.post(f"{INSTANCES}/new", data={**order, "image_id": cast.image.id}, headers=PARTIAL_HEADERS)
    instance = session.query(Instance).one()
    assert answer.status_code == 200
    assert "It is shown only once" in answer.text
    assert instance.account_id == cast.owner.id
    assert session.get(Instance, instance.id).state == "running"
    assert "It is shown only once" not in operator.get(f"{INSTANCES}/{instance.id}").text


def test_an_instance_without_a_system_waits_for_its_owner(operator, order):
    answer = operator.post(f"{INSTANCES}/new", data=order)
    instance = session.query(Instance).one()
    assert answer.headers["Location"] == f"{INSTANCES}/{instance.id}"
    assert "Not deployed" in operator.get(f"{INSTANCES}/{instance.id}").text


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"locked": True}, "hypervisor_locked"),
        ({"maintenance": True}, "hypervisor_maintenance"),
        ({"status": "down"}, "hypervisor_down"),
        ({"deploy_enabled": False}, "hypervisor_deploy_disabled"),
    ],
)
def test_a_closed_hypervisor_that_is_chosen_is_refused_with_its_reason(operator, cast, order, change, reason):
    """INS-89, INS-90, INS-91, INS-92: 409, the operators' create only."""
    node = session.get(Hypervisor, cast.node.id)
    for field, value in change.items():
        setattr(node, field, value)
    session.commit()
    assert re.search(rf'value="{node.id}" disabled', operator.get(f"{INSTANCES}/new").text)
    answer = operator.post(f"{INSTANCES}/new", data={**order, "hypervisor_id": node.id})
    assert answer.status_code == 409
    assert reason in answer.text
    told = operator.post(f"{INSTANCES}/new", data={**order, "hypervisor_id": node.id}, headers=SCRIPT)
    assert (told.status_code, told.json["success"], told.json["reason"]) == (409, False, reason)
    assert session.query(Instance).count() == 0


def test_an_open_hypervisor_that_is_chosen_is_taken(operator, cast, order):
    second = hypervisors.create(
        session.merge(cast.location), name="node-2", driver="simulated", uri="simulated://", storage_path="/srv/a"
    )
    second.status, second.cpu_cores, second.memory_mb = "up", 2, 2048
    second.storages[0].capacity = 100 * 1024**3
    session.commit()
    assert operator.post(f"{INSTANCES}/new", data={**order, "hypervisor_id": second.id}).status_code == 303
    assert session.query(Instance).one().hypervisor_id == second.id


def test_mistakes_stand_beside_their_fields(operator, cast, order):
    other = hypervisors.create_group(name="other")
    session.commit()
    for field, value, sent in (
        ("owner", "nobody@example.com", {}),
        ("owner", "", {}),
        ("plan_id", "nonsense", {}),
        ("hostname", "a--b", {}),
        ("image_id", "nonsense", {}),
        ("password", "short", {"image_id": cast.image.id}),
        ("hypervisor_id", cast.node.id, {"location_id": other.id}),
    ):
        answer = operator.post(f"{INSTANCES}/new", data={**order, **sent, field: value})
        assert (answer.status_code, f'id="wrong-{field}"' in answer.text) == (422, True), field
    assert session.query(Instance).count() == 0


def test_admin_page_power_actions(operator, cast, order, run_tasks, inline_workers):
    operator.post(f"{INSTANCES}/new", data={**order, "image_id": cast.image.id})
    run_tasks()
    instance = session.query(Instance).one()
    power = lambda action: operator.post(f"{INSTANCES}/{instance.id}/power/{action}", headers=PARTIAL_HEADERS)  # noqa: E731
    assert power("poweroff").headers["HX-Trigger"] == "changed"
    run_tasks()
    assert instance.state == "stopped"
    assert "Already stopped." in power("poweroff").text
    assert "is not running" in power("restart").text
    power("start")
    run_tasks()
    assert instance.state == "running"
    assert power("explode").status_code == 404
    assert session.query(Instance).one().tasks[0].actor == "admin@example.com"


def test_destroying_asks_for_the_name(operator, cast, run_tasks):
    instance = cast.instance()
    page = operator.get(f"{INSTANCES}/{instance.id}/settings").text
    assert f'placeholder="Type {instance.name}"' in page
    refused = operator.post(f"{INSTANCES}/{instance.id}/destroy", data={"typed": "shop"})
    assert (refused.status_code, "Nothing was destroyed" in refused.text) == (422, True)
    answer = operator.post(f"{INSTANCES}/{instance.id}/destroy", data={"typed": f" {instance.name} "})
    assert answer.headers["Location"].startswith("/admin/tasks/")
    run_tasks()
    assert session.query(Instance).count() == 0
    assert "Done" in operator.get(answer.headers["Location"]).text


def test_a_protected_instance_is_not_destroyed(operator, cast):
    instance = cast.instance()
    instances.update(instance, protection_enabled=True)
    session.commit()
    assert "Delete protection is on" in operator.get(f"{INSTANCES}/{instance.id}/settings").text
    answer = operator.post(f"{INSTANCES}/{instance.id}/destroy", data={"typed": instance.name})
    assert (answer.status_code, "Delete protection is on" in answer.text) == (409, True)


def test_a_machine_that_its_node_misses(operator, cast):
    instance = cast.instance()
    instance.deployed, instance.missing_on_node = True, True
    session.get(Hypervisor, cast.node.id).status = "down"
    session.commit()
    page = operator.get(f"{INSTANCES}/{instance.id}").text
    assert "VM is missing on the hypervisor" in page
    assert "node-1 is not reachable" in page


def test_the_list_costs_the_same_for_many(operator, cast, queries):
    cast.instance()
    operator.get(INSTANCES)
    queries.clear()
    operator.get(INSTANCES)
    few = len(queries)
    for _ in range(29):
        cast.instance()
    queries.clear()
    assert operator.get(INSTANCES).text.count('<tr id="') == 25
    assert len(queries) == few
