"""Additional disks in both APIs."""

import pytest

from panel.core.db import session
from panel.models import Disk, Task
from panel.services import instances


@pytest.fixture
def call_admin_api(api_as, machine):
    def call_admin_api(method, path, **body):
        return api_as("admin", method, f"/api/v1/instance/{machine.id}/{path}", **({"json": body} if body else {}))

    return call_admin_api


@pytest.fixture
def second_disk(call_admin_api, run_tasks, machine):
    """A second, attached disk of the machine."""
    disk = call_admin_api("POST", "disks", size=3).json["data"]["disk"]
    run_tasks()
    return session.get(Disk, disk["id"])


@pytest.fixture
def post_disk_action(api_as, machine):
    def post_disk_action(disk, action, caller="owner"):
        path = f"/api{'/v1' if caller == 'admin' else ''}/instance/{machine.id}/disk/{disk.id}/{action}"
        return api_as(caller, "POST", path)

    return post_disk_action


def test_disk_is_added_to_running_machine(call_admin_api, api_as, run_tasks, machine, disks_on_node):
    answer = call_admin_api("POST", "disks", size=3)
    assert answer.status_code == 200
    assert answer.json["data"]["disk"]["attached"] is False
    assert session.get(Task, answer.json["data"]["task_id"]).lock == "storage"
    run_tasks()
    name = f"{machine.name}-1.qcow2"
    assert disks_on_node()[0][name] == 3
    assert disks_on_node()[1] == [f"{machine.name}-0.qcow2", name]
    rows = api_as("owner", "GET", f"/api/instance/{machine.id}/disks").json["data"]
    assert [(row["size"], row["is_primary"], row["attached"]) for row in rows] == [(10, True, True), (3, False, True)]
    assert api_as("owner", "GET", f"/api/instance/{machine.id}").json["storage"] == 10


@pytest.mark.parametrize("caller", ["owner", "admin"])
def test_disk_detach_attach_and_delete(post_disk_action, run_tasks, second_disk, machine, disks_on_node, caller):
    """ENV-27"""
    list_attached_names = lambda: disks_on_node()[1]  # noqa: E731
    answer = post_disk_action(second_disk, "detach", caller)
    assert answer.status_code == 200
    assert (answer.json["data"] if caller == "admin" else answer.json)["task_id"]
    run_tasks()
    assert (second_disk.attached, list_attached_names()) == (False, [f"{machine.name}-0.qcow2"])
    assert second_disk.name in disks_on_node()[0]
    assert post_disk_action(second_disk, "detach", caller).json["message"] == "Already detached."
    post_disk_action(second_disk, "attach", caller)
    run_tasks()
    assert (second_disk.attached, list_attached_names()[1:]) == (True, [second_disk.name])
    post_disk_action(second_disk, "delete", caller)
    run_tasks()
    assert session.get(Disk, second_disk.id) is None
    assert (list_attached_names()[1:], second_disk.name in disks_on_node()[0]) == ([], False)


def test_detached_disk_stays_detached_after_start(
    post_disk_action, api_as, run_tasks, second_disk, machine, disks_on_node
):
    post_disk_action(second_disk, "detach")
    run_tasks()
    for action in ("poweroff", "start"):
        api_as("owner", "POST", f"/api/instance/{machine.id}/power/{action}")
        run_tasks()
    assert disks_on_node()[1] == [f"{machine.name}-0.qcow2"]
    post_disk_action(second_disk, "attach")
    run_tasks()
    for action in ("poweroff", "start"):
        api_as("owner", "POST", f"/api/instance/{machine.id}/power/{action}")
        run_tasks()
    assert disks_on_node()[1][1:] == [second_disk.name]


def test_destroy_deletes_detached_disks(post_disk_action, api_as, run_tasks, second_disk, machine, node):
    post_disk_action(second_disk, "detach")
    run_tasks()
    api_as("owner", "DELETE", f"/api/cloud-service/instances/{machine.id}")
    run_tasks()
    assert not [disk.name for disk in node.disks("default") if disk.name.startswith(machine.name)]


def test_disks_grow_and_do_not_shrink(call_admin_api, run_tasks, second_disk, machine, disks_on_node):
    for disk, size in ((second_disk, 5), (machine.disks[0], 12)):
        assert call_admin_api("PATCH", f"disk/{disk.id}", size=size).json["data"]["task_id"]
        run_tasks()
        assert disks_on_node()[0][disk.name] == disk.size == size
        assert call_admin_api("PATCH", f"disk/{disk.id}", size=size).json["data"]["task_id"] is None
        answer = call_admin_api("PATCH", f"disk/{disk.id}", size=size - 1)
        assert (answer.status_code, list(answer.json["errors"])) == (422, ["size"])
        assert "cannot be made smaller" in answer.json["message"]
    assert machine.storage == 12


def test_disks_need_storage_capacity(call_admin_api, second_disk, cast):
    for answer in (
        call_admin_api("POST", "disks", size=20000),
        call_admin_api("PATCH", f"disk/{second_disk.id}", size=20000),
    ):
        assert (answer.status_code, answer.json["reason"]) == (422, "storage_not_sufficient")
    assert call_admin_api("POST", "disks", size=1, storage_id="nonsense").json["errors"].keys() == {"storage_id"}
    assert call_admin_api("POST", "disks", size=1, storage_id=second_disk.storage_id).status_code == 200
    assert call_admin_api("POST", "disks", size=0).status_code == 422


def test_primary_disk_cannot_be_detached_or_deleted(post_disk_action, call_admin_api, machine):
    for answer in (
        post_disk_action(machine.disks[0], "detach"),
        post_disk_action(machine.disks[0], "delete"),
        call_admin_api("DELETE", f"disk/{machine.disks[0].id}"),
    ):
        assert (answer.status_code, answer.json["reason"]) == (409, "primary_disk")


def test_disk_actions_refused_by_state(post_disk_action, call_admin_api, api_as, run_tasks, second_disk, machine):
    api_as("owner", "POST", f"/api/instance/{machine.id}/forge/enable")
    assert post_disk_action(second_disk, "detach").json["reason"] == "task_running"
    run_tasks()
    assert post_disk_action(second_disk, "detach").json["reason"] == "already_active"
    assert call_admin_api("POST", "disks", size=1).json["reason"] == "already_active"
    api_as("owner", "POST", f"/api/instance/{machine.id}/forge/commit")
    run_tasks()
    instances.suspend(machine, reason="admin", actor="test")
    session.commit()
    assert post_disk_action(second_disk, "detach").json["reason"] == "suspended"


def test_disk_of_other_instance_is_not_found(post_disk_action, api_as, cast, second_disk, machine):
    other = cast.instance()
    for path in (
        f"/api/instance/{other.id}/disk/{second_disk.id}/detach",
        f"/api/v1/instance/{other.id}/disk/{second_disk.id}",
    ):
        caller, method = ("admin", "DELETE") if "/v1/" in path else ("owner", "POST")
        assert api_as(caller, method, path).json["message"] == "The instance has no such disk."


def test_operator_disk_routes(api_as, run_tasks, second_disk, machine):
    answer = api_as("admin", "POST", f"/api/v1/instance/{machine.id}/disks/{second_disk.id}/detach")
    assert answer.json["data"]["task_id"]
    run_tasks()
    assert api_as("admin", "DELETE", f"/api/v1/instance/{machine.id}/disk/{second_disk.id}").status_code == 200
    run_tasks()
    assert session.get(Disk, second_disk.id) is None


@pytest.mark.parametrize("step", ["create_disk", "attach_disk"])
@pytest.mark.parametrize("kind", ["refuse", "lost-answer"])
def test_failed_disk_creation_leaves_nothing(call_admin_api, run_tasks, node, machine, disks_on_node, step, kind):
    node.fault(step, kind, 1)
    call_admin_api("POST", "disks", size=3)
    run_tasks()
    assert len(machine.disks) == 1
    assert disks_on_node() == ({f"{machine.name}-0.qcow2": 10}, [f"{machine.name}-0.qcow2"])


def test_failed_detach_keeps_disk_attached(post_disk_action, run_tasks, node, second_disk, disks_on_node):
    for action in ("detach", "delete"):
        node.fault("detach_disk", "refuse", 1)
        post_disk_action(second_disk, action)
        run_tasks()
        assert second_disk.attached
        assert second_disk.name in disks_on_node()[1]


def test_failed_disk_growth_restores_size(call_admin_api, run_tasks, node, machine):
    node.fault("grow_disk", "full", 1)
    call_admin_api("PATCH", f"disk/{machine.disks[0].id}", size=12)
    run_tasks()
    assert (machine.disks[0].size, machine.storage) == (10, 10)


def test_storage_page_changes_disks(browser_as, run_tasks, second_disk, machine):
    owner, path = browser_as("owner"), f"/instances/{machine.id}/storage"
    assert f"virtio-{machine.name}-1" in owner.get(path).text
    for action, attached in (("detach", False), ("attach", True)):
        assert owner.post(f"/instances/{machine.id}/disk/{second_disk.id}/{action}").status_code == 303
        run_tasks()
        assert second_disk.attached is attached
    assert "needs instances.manage" in browser_as("viewer").get(path).text
    owner.post(f"/instances/{machine.id}/disk/{second_disk.id}/delete")
    run_tasks()
    assert session.get(Disk, second_disk.id) is None
