"""Further disks by both APIs."""

import pytest

from panel.core.db import session
from panel.models import Disk, Task
from panel.services import instances


@pytest.fixture
def operate(api_as, machine):
    def operate(method, path, **body):
        return api_as("admin", method, f"/api/v1/instance/{machine.id}/{path}", **({"json": body} if body else {}))

    return operate


@pytest.fixture
def second(operate, run_tasks, machine):
    """A second disk of the machine, attached."""
    made = operate("POST", "disks", size=3).json["data"]["disk"]
    run_tasks()
    return session.get(Disk, made["id"])


@pytest.fixture
def act(api_as, machine):
    def act(disk, action, who="owner"):
        path = f"/api{'/v1' if who == 'admin' else ''}/instance/{machine.id}/disk/{disk.id}/{action}"
        return api_as(who, "POST", path)

    return act


def test_a_disk_is_added_while_the_guest_runs(operate, api_as, run_tasks, machine, on_node):
    answer = operate("POST", "disks", size=3)
    assert answer.status_code == 200
    assert answer.json["data"]["disk"]["attached"] is False
    assert session.get(Task, answer.json["data"]["task_id"]).lock == "storage"
    run_tasks()
    name = f"{machine.name}-1.qcow2"
    assert on_node()[0][name] == 3
    assert on_node()[1] == [f"{machine.name}-0.qcow2", name]
    rows = api_as("owner", "GET", f"/api/instance/{machine.id}/disks").json["data"]
    assert [(row["size"], row["is_primary"], row["attached"]) for row in rows] == [(10, True, True), (3, False, True)]
    assert api_as("owner", "GET", f"/api/instance/{machine.id}").json["storage"] == 10


@pytest.mark.parametrize("who", ["owner", "admin"])
def test_detach_attach_and_delete(act, run_tasks, second, machine, on_node, who):
    """ENV-27"""
    names = lambda: on_node()[1]  # noqa: E731
    answer = act(second, "detach", who)
    assert answer.status_code == 200
    assert (answer.json["data"] if who == "admin" else answer.json)["task_id"]
    run_tasks()
    assert (second.attached, names()) == (False, [f"{machine.name}-0.qcow2"])
    assert second.name in on_node()[0]
    assert act(second, "detach", who).json["message"] == "Already detached."
    act(second, "attach", who)
    run_tasks()
    assert (second.attached, names()[1:]) == (True, [second.name])
    act(second, "delete", who)
    run_tasks()
    assert session.get(Disk, second.id) is None
    assert (names()[1:], second.name in on_node()[0]) == ([], False)


def test_a_detached_disk_stays_out_when_the_machine_starts(act, api_as, run_tasks, second, machine, on_node):
    act(second, "detach")
    run_tasks()
    for action in ("poweroff", "start"):
        api_as("owner", "POST", f"/api/instance/{machine.id}/power/{action}")
        run_tasks()
    assert on_node()[1] == [f"{machine.name}-0.qcow2"]
    act(second, "attach")
    run_tasks()
    for action in ("poweroff", "start"):
        api_as("owner", "POST", f"/api/instance/{machine.id}/power/{action}")
        run_tasks()
    assert on_node()[1][1:] == [second.name]


def test_a_destroy_takes_all_disks(act, api_as, run_tasks, second, machine, node):
    act(second, "detach")
    run_tasks()
    api_as("owner", "DELETE", f"/api/cloud-service/instances/{machine.id}")
    run_tasks()
    assert not [disk.name for disk in node.disks("default") if disk.name.startswith(machine.name)]


def test_disks_grow_and_do_not_shrink(operate, run_tasks, second, machine, on_node):
    for disk, size in ((second, 5), (machine.disks[0], 12)):
        assert operate("PATCH", f"disk/{disk.id}", size=size).json["data"]["task_id"]
        run_tasks()
        assert on_node()[0][disk.name] == disk.size == size
        assert operate("PATCH", f"disk/{disk.id}", size=size).json["data"]["task_id"] is None
        answer = operate("PATCH", f"disk/{disk.id}", size=size - 1)
        assert (answer.status_code, list(answer.json["errors"])) == (422, ["size"])
        assert "cannot be made smaller" in answer.json["message"]
    assert machine.storage == 12


def test_disks_need_storage_capacity(operate, second, cast):
    for answer in (operate("POST", "disks", size=20000), operate("PATCH", f"disk/{second.id}", size=20000)):
        assert (answer.status_code, answer.json["reason"]) == (422, "storage_not_sufficient")
    assert operate("POST", "disks", size=1, storage_id="nonsense").json["errors"].keys() == {"storage_id"}
    assert operate("POST", "disks", size=1, storage_id=second.storage_id).status_code == 200
    assert operate("POST", "disks", size=0).status_code == 422


def test_the_first_disk_stays(act, operate, machine):
    for answer in (
        act(machine.disks[0], "detach"),
        act(machine.disks[0], "delete"),
        operate("DELETE", f"disk/{machine.disks[0].id}"),
    ):
        assert (answer.status_code, answer.json["reason"]) == (409, "primary_disk")


def test_when_it_cannot_be_done(act, operate, api_as, run_tasks, second, machine):
    api_as("owner", "POST", f"/api/instance/{machine.id}/forge/enable")
    assert act(second, "detach").json["reason"] == "task_running"
    run_tasks()
    assert act(second, "detach").json["reason"] == "already_active"
    assert operate("POST", "disks", size=1).json["reason"] == "already_active"
    api_as("owner", "POST", f"/api/instance/{machine.id}/forge/commit")
    run_tasks()
    instances.suspend(machine, reason="admin", actor="test")
    session.commit()
    assert act(second, "detach").json["reason"] == "suspended"


def test_disks_of_others_are_not_there(act, api_as, cast, second, machine):
    other = cast.instance()
    for path in (f"/api/instance/{other.id}/disk/{second.id}/detach", f"/api/v1/instance/{other.id}/disk/{second.id}"):
        who, method = ("admin", "DELETE") if "/v1/" in path else ("owner", "POST")
        assert api_as(who, method, path).json["message"] == "The instance has no such disk."


def test_operator_disk_routes(api_as, run_tasks, second, machine):
    answer = api_as("admin", "POST", f"/api/v1/instance/{machine.id}/disks/{second.id}/detach")
    assert answer.json["data"]["task_id"]
    run_tasks()
    assert api_as("admin", "DELETE", f"/api/v1/instance/{machine.id}/disk/{second.id}").status_code == 200
    run_tasks()
    assert session.get(Disk, second.id) is None


@pytest.mark.parametrize("step", ["create_disk", "attach_disk"])
@pytest.mark.parametrize("kind", ["refuse", "lost-answer"])
def test_a_disk_that_could_not_be_made_leaves_nothing(operate, run_tasks, node, machine, on_node, step, kind):
    node.fault(step, kind, 1)
    operate("POST", "disks", size=3)
    run_tasks()
    assert len(machine.disks) == 1
    assert on_node() == ({f"{machine.name}-0.qcow2": 10}, [f"{machine.name}-0.qcow2"])


def test_a_guest_that_does_not_let_it_go_keeps_it(act, run_tasks, node, second, on_node):
    for action in ("detach", "delete"):
        node.fault("detach_disk", "refuse", 1)
        act(second, action)
        run_tasks()
        assert second.attached
        assert second.name in on_node()[1]


def test_a_disk_that_could_not_grow_has_its_old_size(operate, run_tasks, node, machine):
    node.fault("grow_disk", "full", 1)
    operate("PATCH", f"disk/{machine.disks[0].id}", size=12)
    run_tasks()
    assert (machine.disks[0].size, machine.storage) == (10, 10)


def test_storage_page_changes_disks(browser_as, run_tasks, second, machine):
    owner, path = browser_as("owner"), f"/instances/{machine.id}/storage"
    assert f"virtio-{machine.name}-1" in owner.get(path).text
    for action, attached in (("detach", False), ("attach", True)):
        assert owner.post(f"/instances/{machine.id}/disk/{second.id}/{action}").status_code == 303
        run_tasks()
        assert second.attached is attached
    assert "needs instances.manage" in browser_as("viewer").get(path).text
    owner.post(f"/instances/{machine.id}/disk/{second.id}/delete")
    run_tasks()
    assert session.get(Disk, second.id) is None
