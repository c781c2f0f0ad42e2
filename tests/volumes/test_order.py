"""Queued operations of one volume: each starts only when the previous one succeeded."""

import pytest

from panel.core.db import session
from panel.models import Hypervisor, MeteringRecord, Storage, Task

BLOCKED_MESSAGE = "Not started, because an earlier operation on the volume failed: The hypervisor refused this."


def list_task_results(volume):
    """Return kind, status and error of the volume's tasks, without its creation and attaches."""
    tasks = session.query(Task).filter_by(resource_id=volume.id).order_by(Task.id)
    return [
        (task.kind, task.status, task.error) for task in tasks if task.kind not in ("volume_create", "volume_attach")
    ]


def test_operations_after_failed_detach_are_not_started(
    call_storage_api, attached_volume, run_tasks, node, machine, plans, volumes_on_node
):
    path = f"volume/{attached_volume.id}"
    node.fault("detach_disk", "refuse", 1)
    detached = call_storage_api("POST", f"{path}/detach").json["volume"]
    assert (detached["status"], detached["instance_id"], detached["dev"]) == ("available", None, None)
    assert detached["pending"] == {"operation": "volume_detach", "task_id": attached_volume.task_id}
    resized = call_storage_api("PATCH", f"{path}/resize", volume_plan_id=plans["large"].id).json["volume"]
    assert (resized["size"], resized["volume_plan_id"]) == (10, plans["large"].id)
    assert resized["pending"]["operation"] == "volume_resize"
    queue = call_storage_api("POST", f"{path}/snapshot", name="s").json["queue"]
    shown = call_storage_api("GET", path).json["volume"]
    assert shown["pending"] == {"operation": queue["operation"], "task_id": queue["id"]}
    run_tasks()
    assert list_task_results(attached_volume) == [
        ("volume_detach", "failed", "The hypervisor refused this."),
        ("volume_resize", "failed", BLOCKED_MESSAGE),
        ("volume_snapshot", "failed", BLOCKED_MESSAGE),
    ]
    shown = call_storage_api("GET", path).json["volume"]
    assert (shown["status"], shown["instance_id"], shown["size"]) == ("attached", machine.id, 10)
    assert (shown["volume_plan_id"], shown["pending"], shown["error"]) == (plans["small"].id, None, BLOCKED_MESSAGE)
    assert [(snapshot["status"], snapshot["error"]) for snapshot in shown["snapshots"]] == [("failed", BLOCKED_MESSAGE)]
    assert volumes_on_node(machine) == ({attached_volume.disk_name: 10}, [attached_volume.disk_name])
    # New requests are not blocked by the failed one.
    call_storage_api("POST", f"{path}/detach")
    call_storage_api("PATCH", f"{path}/resize", volume_plan_id=plans["large"].id)
    run_tasks()
    shown = call_storage_api("GET", path).json["volume"]
    assert (shown["status"], shown["size"], shown["pending"], shown["error"]) == ("available", 20, None, None)


def test_attach_after_failed_detach_is_not_started(
    call_storage_api, attached_volume, run_tasks, node, machine, cast, api_as
):
    """The volume stays attached to its machine, whatever the answers said meanwhile."""
    other = cast.instance()
    api_as("owner", "POST", f"/api/instance/{other.id}/deploy", json={"image_id": cast.image.id})
    run_tasks()
    node.fault("detach_disk", "refuse", 1)
    path = f"volume/{attached_volume.id}"
    call_storage_api("POST", f"{path}/detach")
    assert call_storage_api("POST", f"{path}/attach", instance_id=other.id).json["volume"]["instance_id"] == other.id
    call_storage_api("POST", f"{path}/detach")
    run_tasks()
    assert (attached_volume.status, attached_volume.instance_id) == ("attached", machine.id)


def test_restore_after_failed_detach_is_not_started(
    call_storage_api, attached_volume, run_tasks, node, volumes_on_node
):
    path = f"volume/{attached_volume.id}"
    call_storage_api("POST", f"{path}/snapshot", name="s")
    run_tasks()
    node.fault("detach_disk", "refuse", 1)
    call_storage_api("POST", f"{path}/detach")
    call_storage_api("POST", f"{path}/snapshot/{attached_volume.snapshots[0].id}/restore", mode="in_place")
    name = attached_volume.disk_name
    run_tasks()
    assert (attached_volume.disk_name, attached_volume.snapshots[0].status) == (name, "available")
    assert set(volumes_on_node()) == {name, attached_volume.snapshots[0].disk_name}


@pytest.mark.parametrize("failing", [1, 2])
def test_failed_resize_keeps_last_successful_plan(call_storage_api, attached_volume, run_tasks, node, plans, failing):
    """The plan is the one of the last resize that succeeded."""
    if failing == 1:
        node.fault("grow_disk", "refuse", 1)
    call_storage_api("PATCH", f"volume/{attached_volume.id}/resize", volume_plan_id=plans["large"].id)
    if failing == 2:
        run_tasks()
        node.fault("grow_disk", "refuse", 1)
    call_storage_api("PATCH", f"volume/{attached_volume.id}/resize", volume_plan_id=plans["huge"].id)
    run_tasks()
    expected = ("small", 10) if failing == 1 else ("large", 20)
    assert (attached_volume.plan.name, attached_volume.size, attached_volume.growing_to) == (*expected, None)
    record = session.query(MeteringRecord).filter_by(resource_id=attached_volume.id, ended_at=None).one()
    assert record.plan == expected[0]


def test_resize_allocates_storage_immediately(call_storage_api, attached_volume, plans, run_tasks):
    storage = session.query(Storage).join(Hypervisor).filter(Storage.id == attached_volume.storage_id).one()
    before = storage.allocated
    call_storage_api("PATCH", f"volume/{attached_volume.id}/resize", volume_plan_id=plans["large"].id)
    session.refresh(storage)
    assert storage.allocated == before + 10
    run_tasks()
    session.refresh(storage)
    assert storage.allocated == before + 10


def test_operations_after_cancelled_detach_are_not_started(call_storage_api, api_as, attached_volume, run_tasks, plans):
    path = f"volume/{attached_volume.id}"
    call_storage_api("POST", f"{path}/detach")
    first = attached_volume.task_id
    call_storage_api("PATCH", f"{path}/resize", volume_plan_id=plans["large"].id)
    assert api_as("owner", "POST", f"/api/task/{first}/cancel").status_code == 200
    run_tasks()
    assert (attached_volume.status, attached_volume.size, attached_volume.plan.name) == ("attached", 10, "small")
    assert list_task_results(attached_volume)[1][2].endswith("The task was cancelled.")
