"""Volume operations with node faults and worker deaths: the row matches the node, and no data is lost."""

import pytest

from panel.core.db import session
from panel.models import MeteringRecord, Task
from tests.support.worker_faults import requeue_to_new_worker


def get_latest_task(volume):
    return session.get(Task, volume.task_id)


@pytest.mark.parametrize("kind", ["full", "lost-answer"])
def test_failed_volume_create_leaves_no_disk(call_storage_api, volume_body, run_tasks, node, volumes_on_node, kind):
    node.fault("create_disk", kind, 1)
    volume_id = call_storage_api("POST", "volumes", name="x", **volume_body).json["volume"]["id"]
    run_tasks()
    volume = call_storage_api("GET", f"volume/{volume_id}").json["volume"]
    assert (volume["status"], bool(volume["error"]), volumes_on_node()) == ("failed", True, {})
    call_storage_api("DELETE", f"volume/{volume_id}")
    run_tasks()
    assert call_storage_api("GET", "volumes").json["data"] == []


@pytest.mark.parametrize("kind", ["refuse", "lost-answer"])
def test_failed_volume_attach_makes_volume_available(
    call_storage_api, volume, run_tasks, machine, node, volumes_on_node, kind
):
    node.fault("attach_disk", kind, 1)
    call_storage_api("POST", f"volume/{volume.id}/attach", instance_id=machine.id)
    run_tasks()
    assert (volume.status, volume.instance_id, bool(volume.error)) == ("available", None, True)
    assert volumes_on_node(machine)[1] == []


def test_failed_volume_detach_keeps_volume_attached(
    call_storage_api, attached_volume, run_tasks, machine, node, volumes_on_node
):
    node.fault("detach_disk", "refuse", 1)
    assert call_storage_api("POST", f"volume/{attached_volume.id}/detach").status_code == 200
    run_tasks()
    assert (attached_volume.status, attached_volume.instance_id, bool(attached_volume.error)) == (
        "attached",
        machine.id,
        True,
    )
    assert volumes_on_node(machine)[1] == [attached_volume.disk_name]
    record = session.query(MeteringRecord).filter_by(resource_id=attached_volume.id).one()
    assert record.ended_at is None


def test_volume_grow_failure_restores_size(call_storage_api, attached_volume, run_tasks, node, plans):
    node.fault("grow_disk", "full", 1)
    call_storage_api("PATCH", f"volume/{attached_volume.id}/resize", volume_plan_id=plans["large"].id)
    run_tasks()
    assert (attached_volume.size, attached_volume.plan.name, bool(attached_volume.error)) == (10, "small", True)
    assert attached_volume.growing_to is None


@pytest.mark.parametrize("step", ["create_overlays", "copy_disk", "commit_overlay"])
def test_failed_volume_snapshot_keeps_volume_unchanged(
    call_storage_api, attached_volume, run_tasks, node, volumes_on_node, step
):
    node.fault(step, "refuse", 1)
    call_storage_api("POST", f"volume/{attached_volume.id}/snapshot", name="s")
    run_tasks()
    [row] = call_storage_api("GET", f"volume/{attached_volume.id}").json["volume"]["snapshots"]
    assert (row["status"], bool(row["error"])) == ("failed", True)
    assert list(volumes_on_node()) == [attached_volume.disk_name]
    assert call_storage_api("DELETE", f"volume/{attached_volume.id}/snapshot/{row['id']}").status_code == 200
    run_tasks()
    assert call_storage_api("GET", f"volume/{attached_volume.id}").json["volume"]["snapshots"] == []


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("step", ["create_overlays", "copy_disk", "commit_overlay"])
def test_volume_snapshot_is_completed_after_worker_death(
    call_storage_api, attached_volume, kill_worker_at, volumes_on_node, step, after
):
    call_storage_api("POST", f"volume/{attached_volume.id}/snapshot", name="s")
    kill_worker_at(get_latest_task(attached_volume), step, after=after)
    assert requeue_to_new_worker(get_latest_task(attached_volume)).status == "completed"
    assert set(volumes_on_node()) == {attached_volume.disk_name, attached_volume.snapshots[0].disk_name}
    assert attached_volume.snapshots[0].status == "available"


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("step", ["copy_disk", "grow_disk", "delete_disk"])
def test_volume_restore_is_completed_after_worker_death(
    call_storage_api, volume, run_tasks, kill_worker_at, volumes_on_node, step, after
):
    call_storage_api("POST", f"volume/{volume.id}/snapshot", name="s")
    run_tasks()
    before = volume.disk_name
    call_storage_api("POST", f"volume/{volume.id}/snapshot/{volume.snapshots[0].id}/restore", mode="in_place")
    kill_worker_at(get_latest_task(volume), step, after=after)
    assert requeue_to_new_worker(get_latest_task(volume)).status == "completed"
    assert volume.disk_name != before
    assert set(volumes_on_node()) == {volume.disk_name, volume.snapshots[0].disk_name}


@pytest.mark.parametrize("step", ["detach_disk", "delete_disk"])
def test_volume_delete_is_completed_after_worker_death(
    call_storage_api, attached_volume, kill_worker_at, volumes_on_node, machine, step
):
    call_storage_api("DELETE", f"volume/{attached_volume.id}")
    task = get_latest_task(attached_volume)
    kill_worker_at(task, step)
    assert requeue_to_new_worker(task).status == "completed"
    assert volumes_on_node(machine) == ({}, [])
