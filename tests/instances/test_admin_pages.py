"""Instances of all accounts on the operators' pages."""

import re

import pytest

from panel.core.db import session
from panel.models import Hypervisor, Instance
from panel.services import hypervisors, instances
from panel.workflows import waiting
from tests.support.html_pages import PARTIAL_HEADERS
from tests.support.task_queue import run_queued_calls

INSTANCES_PATH = "/admin/instances"
JSON_HEADERS = {"Accept": "application/json"}


@pytest.fixture
def operator_browser(browser_as):
    return browser_as("admin")


@pytest.fixture
def create_form(cast):
    return {"owner": "owner@example.com", "location_id": cast.location.id, "plan_id": cast.plan.id}


@pytest.fixture
def inline_workers(monkeypatch):
    """Run queued calls while a request waits."""
    monkeypatch.setattr(waiting.time, "sleep", lambda _: run_queued_calls())


def test_admin_list_shows_instances_of_all_accounts(operator_browser, cast):
    own_instance, others = cast.instance("owner", display_name="Shop front"), cast.instance("outsider")

    def list_ids(query):
        page = operator_browser.get(f"{INSTANCES_PATH}?{query}").text
        return re.findall(r'<tr id="instance-(\S+)"', page)

    assert list_ids("") == [others.id, own_instance.id]
    assert list_ids("search=shop") == [own_instance.id]
    assert list_ids("state=running") == []
    assert list_ids("state=pending") == [others.id, own_instance.id]
    assert list_ids(f"node={cast.node.id}") == [others.id, own_instance.id]
    assert list_ids("node=elsewhere") == []
    page = operator_browser.get(INSTANCES_PATH).text
    assert "outsider@example.com" in page
    assert f"/admin/hypervisors/{cast.node.id}" in page


def test_create_shows_password_once(operator_browser, cast, create_form, inline_workers):
    answer = operator_browser.post(
        f"{INSTANCES_PATH}/new", data={**create_form, "image_id": cast.image.id}, headers=PARTIAL_HEADERS
    )
    instance = session.query(Instance).one()
    assert answer.status_code == 200
    assert "It is shown only once" in answer.text
    assert instance.account_id == cast.owner.id
    assert session.get(Instance, instance.id).state == "running"
    assert "It is shown only once" not in operator_browser.get(f"{INSTANCES_PATH}/{instance.id}").text


def test_create_without_image_leaves_instance_undeployed(operator_browser, create_form):
    answer = operator_browser.post(f"{INSTANCES_PATH}/new", data=create_form)
    instance = session.query(Instance).one()
    assert answer.headers["Location"] == f"{INSTANCES_PATH}/{instance.id}"
    assert "Not deployed" in operator_browser.get(f"{INSTANCES_PATH}/{instance.id}").text


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"locked": True}, "hypervisor_locked"),
        ({"maintenance": True}, "hypervisor_maintenance"),
        ({"status": "down"}, "hypervisor_down"),
        ({"deploy_enabled": False}, "hypervisor_deploy_disabled"),
    ],
)
def test_create_on_unschedulable_hypervisor_is_refused_with_reason(operator_browser, cast, create_form, change, reason):
    """INS-89, INS-90, INS-91, INS-92: 409, the operators' create only."""
    node = session.get(Hypervisor, cast.node.id)
    for field, value in change.items():
        setattr(node, field, value)
    session.commit()
    assert re.search(rf'value="{node.id}" disabled', operator_browser.get(f"{INSTANCES_PATH}/new").text)
    answer = operator_browser.post(f"{INSTANCES_PATH}/new", data={**create_form, "hypervisor_id": node.id})
    assert answer.status_code == 409
    assert reason in answer.text
    json_answer = operator_browser.post(
        f"{INSTANCES_PATH}/new", data={**create_form, "hypervisor_id": node.id}, headers=JSON_HEADERS
    )
    assert (json_answer.status_code, json_answer.json["success"], json_answer.json["reason"]) == (409, False, reason)
    assert session.query(Instance).count() == 0


def test_create_uses_chosen_hypervisor(operator_browser, cast, create_form):
    second = hypervisors.create(
        session.merge(cast.location), name="node-2", driver="simulated", uri="simulated://", storage_path="/srv/a"
    )
    second.status, second.cpu_cores, second.memory_mb = "up", 2, 2048
    second.storages[0].capacity = 100 * 1024**3
    session.commit()
    assert (
        operator_browser.post(f"{INSTANCES_PATH}/new", data={**create_form, "hypervisor_id": second.id}).status_code
        == 303
    )
    assert session.query(Instance).one().hypervisor_id == second.id


def test_create_errors_are_shown_at_their_fields(operator_browser, cast, create_form):
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
        answer = operator_browser.post(f"{INSTANCES_PATH}/new", data={**create_form, **sent, field: value})
        assert (answer.status_code, f'id="wrong-{field}"' in answer.text) == (422, True), field
    assert session.query(Instance).count() == 0


def test_admin_page_power_actions(operator_browser, cast, create_form, run_tasks, inline_workers):
    operator_browser.post(f"{INSTANCES_PATH}/new", data={**create_form, "image_id": cast.image.id})
    run_tasks()
    instance = session.query(Instance).one()

    def post_power_action(action):
        return operator_browser.post(f"{INSTANCES_PATH}/{instance.id}/power/{action}", headers=PARTIAL_HEADERS)

    assert post_power_action("poweroff").headers["HX-Trigger"] == "changed"
    run_tasks()
    assert instance.state == "stopped"
    assert "Already stopped." in post_power_action("poweroff").text
    assert "is not running" in post_power_action("restart").text
    post_power_action("start")
    run_tasks()
    assert instance.state == "running"
    assert post_power_action("explode").status_code == 404
    assert session.query(Instance).one().tasks[0].actor == "admin@example.com"


def test_destroy_requires_instance_name(operator_browser, cast, run_tasks):
    instance = cast.instance()
    page = operator_browser.get(f"{INSTANCES_PATH}/{instance.id}/settings").text
    assert f'placeholder="Type {instance.name}"' in page
    refused = operator_browser.post(f"{INSTANCES_PATH}/{instance.id}/destroy", data={"typed": "shop"})
    assert (refused.status_code, "Nothing was destroyed" in refused.text) == (422, True)
    answer = operator_browser.post(f"{INSTANCES_PATH}/{instance.id}/destroy", data={"typed": f" {instance.name} "})
    assert answer.headers["Location"].startswith("/admin/tasks/")
    run_tasks()
    assert session.query(Instance).count() == 0
    assert "Done" in operator_browser.get(answer.headers["Location"]).text


def test_protected_instance_is_not_destroyed(operator_browser, cast):
    instance = cast.instance()
    instances.update(instance, protection_enabled=True)
    session.commit()
    assert "Delete protection is on" in operator_browser.get(f"{INSTANCES_PATH}/{instance.id}/settings").text
    answer = operator_browser.post(f"{INSTANCES_PATH}/{instance.id}/destroy", data={"typed": instance.name})
    assert (answer.status_code, "Delete protection is on" in answer.text) == (409, True)


def test_machine_missing_on_node_is_shown(operator_browser, cast):
    instance = cast.instance()
    instance.deployed, instance.missing_on_node = True, True
    session.get(Hypervisor, cast.node.id).status = "down"
    session.commit()
    page = operator_browser.get(f"{INSTANCES_PATH}/{instance.id}").text
    assert "VM is missing on the hypervisor" in page
    assert "node-1 does not respond" in page


def test_admin_list_has_constant_query_count(operator_browser, cast, queries):
    cast.instance()
    operator_browser.get(INSTANCES_PATH)
    queries.clear()
    operator_browser.get(INSTANCES_PATH)
    few = len(queries)
    for _ in range(29):
        cast.instance()
    queries.clear()
    assert operator_browser.get(INSTANCES_PATH).text.count('<tr id="') == 25
    assert len(queries) == few
