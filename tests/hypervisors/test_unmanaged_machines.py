"""Unmanaged machines, and instances whose machine is missing on the node."""

import pytest

from panel.core.db import session
from panel.models import Hypervisor, Instance, Task
from panel.services import hypervisors, instances
from worker.nodes.base import Machine
from worker.sync import node_sync

UNMANAGED_ID = "0199c0a8-0000-7000-8000-00000000abcd"


@pytest.fixture
def path(cast):
    return f"/api/v1/hypervisor/{cast.node.id}/orphan"


@pytest.fixture
def unmanaged_machine(node):
    node.define(Machine(id=UNMANAGED_ID, name="old-web", cpu_cores=1, memory_mb=64, disks=()))
    node.start(UNMANAGED_ID)


@pytest.fixture
def missing_instance(cast, node, run_tasks):
    """An instance whose machine was deleted on the node without the panel."""
    instance = cast.instance()
    instances.deploy(instance, image_id=cast.image.id, actor="test")
    session.commit()
    run_tasks()
    node.delete(instance.id)
    node_sync.reconcile(cast.node.id)
    return session.get(Instance, instance.id, populate_existing=True)


def wait_for_task(answer, work):
    assert answer.status_code == 200, answer.text
    work()
    return session.get(Task, answer.json["data"]["task_id"])


def test_discovery_finds_unmanaged_and_missing_machines(api_as, path, unmanaged_machine, missing_instance, run_tasks):
    assert api_as("admin", "GET", f"{path}/discoveries/latest").status_code == 404
    task = wait_for_task(api_as("admin", "POST", f"{path}/discover"), run_tasks)
    discovery = api_as("admin", "GET", f"{path}/discoveries/latest").json["data"]
    assert (discovery["task_id"], discovery["status"]) == (task.id, "completed")
    [machine] = discovery["unknown"]
    assert (machine["id"], machine["name"], machine["power"]) == (UNMANAGED_ID, "old-web", "on")
    assert discovery["missing"] == [{"id": missing_instance.id, "name": missing_instance.name}]
    assert api_as("admin", "GET", f"{path}/discoveries/{task.id}").json["data"] == discovery
    assert api_as("admin", "GET", f"{path}/discoveries/{UNMANAGED_ID}").status_code == 404


def test_discovery_result_of_older_version_is_shown(api_as, path, unmanaged_machine, run_tasks):
    task = wait_for_task(api_as("admin", "POST", f"{path}/discover"), run_tasks)
    task.arguments = {"unknown": [{"id": UNMANAGED_ID, "name": "old-web"}], "missing": []}
    session.commit()
    [machine] = api_as("admin", "GET", f"{path}/discoveries/latest").json["data"]["unknown"]
    assert (machine["name"], machine["power"], machine["disks"]) == ("old-web", None, [])


def test_discovery_fails_when_hypervisor_refuses_calls(api_as, path, node, run_tasks):
    node.fault("*", "refuse")
    task = wait_for_task(api_as("admin", "POST", f"{path}/discover"), run_tasks)
    assert task.status == "failed"


def test_unmanaged_machine_deletion_requires_name(api_as, path, unmanaged_machine, node, run_tasks):
    wait_for_task(api_as("admin", "POST", f"{path}/discover"), run_tasks)
    wrong = api_as("admin", "POST", f"{path}/{UNMANAGED_ID}/remove", json={"name": "old"})
    assert (wrong.status_code, wrong.json["errors"].keys()) == (422, {"name"})
    assert [machine.id for machine in node.machines()] == [UNMANAGED_ID]
    task = wait_for_task(api_as("admin", "POST", f"{path}/{UNMANAGED_ID}/remove", json={"name": "old-web"}), run_tasks)
    assert (task.status, node.machines()) == ("completed", [])
    assert api_as("admin", "POST", f"{path}/{UNMANAGED_ID}/remove", json={"name": "old-web"}).status_code == 404


def test_machine_of_instance_is_not_deleted_as_unmanaged(api_as, path, cast, node, run_tasks):
    """The list of unmanaged machines is out of date here."""
    instance = cast.instance()
    instances.deploy(instance, image_id=cast.image.id, actor="test")
    session.commit()
    run_tasks()
    session.get(Hypervisor, cast.node.id).unmanaged_machines = [{"id": instance.id, "name": instance.name}]
    session.commit()
    answer = api_as("admin", "POST", f"{path}/{instance.id}/remove", json={"name": instance.name})
    assert wait_for_task(answer, run_tasks).status == "failed"
    assert [machine.id for machine in node.machines()] == [instance.id]


@pytest.mark.parametrize(("text", "call"), [("discover", "describe_machine"), (f"{UNMANAGED_ID}/remove", "delete")])
def test_task_fails_when_hypervisor_is_deleted_during_call(
    api_as, path, cast, unmanaged_machine, node, run_tasks, monkeypatch, text, call
):
    wait_for_task(api_as("admin", "POST", f"{path}/discover"), run_tasks)
    answer_call = getattr(node, call)

    def remove_hypervisor(machine_id):
        hypervisors.delete(session.get(Hypervisor, cast.node.id))
        session.commit()
        return answer_call(machine_id)

    answer = api_as("admin", "POST", f"{path}/{text}", json={"name": "old-web"} if text != "discover" else None)
    monkeypatch.setattr(type(node), call, lambda _, machine_id: remove_hypervisor(machine_id))
    task = wait_for_task(answer, run_tasks)
    assert (task.status, task.error) == ("failed", "The hypervisor was removed.")


def test_repair_redefines_missing_machine(api_as, missing_instance, node, run_tasks):
    assert missing_instance.missing_on_node
    task = wait_for_task(api_as("admin", "POST", f"/api/v1/instance/{missing_instance.id}/repair"), run_tasks)
    again = session.get(Instance, missing_instance.id, populate_existing=True)
    assert (task.status, again.missing_on_node, again.last_error, again.state) == ("completed", False, None, "stopped")
    assert [machine.id for machine in node.machines()] == [missing_instance.id]
    assert api_as("admin", "POST", f"/api/v1/instance/{missing_instance.id}/repair").status_code == 409


def test_repair_without_disk_fails_and_keeps_missing(api_as, missing_instance, node, run_tasks):
    node.delete_disk("default", missing_instance.disks[0].name)
    task = wait_for_task(api_as("admin", "POST", f"/api/v1/instance/{missing_instance.id}/repair"), run_tasks)
    assert (task.status, missing_instance.disks[0].name in task.error_detail) == ("failed", True)
    assert session.get(Instance, missing_instance.id, populate_existing=True).missing_on_node
    assert node.machines() == []


def test_missing_instance_can_be_deleted(api_as, missing_instance, run_tasks):
    assert api_as("admin", "DELETE", f"/api/v1/instance/{missing_instance.id}").status_code == 200
    run_tasks()
    assert session.get(Instance, missing_instance.id, populate_existing=True) is None


def test_unmanaged_machines_page(browser_as, cast, unmanaged_machine, missing_instance, node, run_tasks):
    operator, page = browser_as("admin"), f"/admin/hypervisors/{cast.node.id}/orphans"
    operator.post(f"{page}/discover")
    run_tasks()
    shown = operator.get(page).text
    for text in ("old-web", missing_instance.display_name, "Redefine VM"):
        assert text in shown
    assert operator.post(f"{page}/{UNMANAGED_ID}/remove", data={"typed": "x"}).status_code == 422
    assert operator.post(f"{page}/{UNMANAGED_ID}/remove", data={"typed": "old-web"}).status_code == 303
    assert operator.post(f"/admin/instances/{missing_instance.id}/repair").status_code == 303
    run_tasks()
    assert session.get(Hypervisor, cast.node.id, populate_existing=True).unmanaged_machines == []
    shown = operator.get(page).text
    assert "Every VM on this host belongs to an instance" in shown
    assert "Every instance has its VM on this host" in shown
