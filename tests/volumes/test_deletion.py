"""Deleted volumes stay deleted: the panel retries until their disks are gone."""

from datetime import timedelta

import pytest

from panel.cli import doctor
from panel.core import clock
from panel.core.db import session
from panel.models import MeteringRecord, Task, Volume
from panel.services import overview
from worker.tasks.volumes import MAX_DELETE_RETRY_SECONDS, retry_deletes


@pytest.fixture
def assert_volume_gone(call_storage_api, api_as):
    """Return a function that checks that no API finds the volume."""

    def check(volume_id):
        assert call_storage_api("GET", f"volume/{volume_id}").status_code == 404
        assert call_storage_api("POST", f"volume/{volume_id}/detach").status_code == 404
        assert call_storage_api("GET", "volumes").json["data"] == []
        assert api_as("admin", "GET", f"/api/v1/volume/{volume_id}").status_code == 404

    return check


def make_retry_due(volume):
    """Make the next attempt due, and retry."""
    volume.next_delete_at = clock.now()
    session.commit()
    retry_deletes()


@pytest.mark.parametrize("fault", ["refuse", "silent", "lost-answer"])
@pytest.mark.parametrize("step", ["detach_disk", "delete_disk"])
def test_failed_volume_delete_is_retried_until_gone(
    call_storage_api, attached_volume, run_tasks, machine, node, volumes_on_node, assert_volume_gone, step, fault
):
    """200, then always 404, although the node refused at first."""
    node.fault(step, fault, 2)
    volume_id = attached_volume.id
    assert call_storage_api("DELETE", f"volume/{volume_id}").status_code == 200
    for attempt in (1, 2):
        assert_volume_gone(volume_id)
        run_tasks()
        assert_volume_gone(volume_id)
        assert (attached_volume.status, attached_volume.instance_id, attached_volume.delete_attempts) == (
            "deleting",
            None,
            attempt,
        )
        assert session.query(MeteringRecord).filter_by(resource_id=volume_id).one().ended_at is not None
        retry_deletes()
        run_tasks()
        assert attached_volume.delete_attempts == attempt, "not before it is due"
        make_retry_due(attached_volume)
    run_tasks()
    assert_volume_gone(volume_id)
    assert session.get(Volume, volume_id) is None
    assert volumes_on_node(machine) == ({}, [])


def test_volume_delete_retries_back_off(call_storage_api, attached_volume, run_tasks, node):
    node.fault("delete_disk", "refuse", 12)
    call_storage_api("DELETE", f"volume/{attached_volume.id}")
    waits = []
    for _ in range(12):
        run_tasks()
        waits.append((attached_volume.next_delete_at - clock.now()).total_seconds())
        make_retry_due(attached_volume)
    assert 5 < waits[0] < 11
    assert 15 < waits[1] < 21
    assert waits[-1] == pytest.approx(MAX_DELETE_RETRY_SECONDS, abs=60)
    run_tasks()
    assert session.get(Volume, attached_volume.id) is None


def test_customer_sees_one_task_per_volume_delete(
    call_storage_api, api_as, browser_as, attached_volume, run_tasks, node
):
    """Operators see each attempt. The task of the request remains available."""
    node.fault("delete_disk", "refuse", 2)
    call_storage_api("DELETE", f"volume/{attached_volume.id}")
    first = attached_volume.task_id
    for _ in range(2):
        run_tasks()
        make_retry_due(attached_volume)
    run_tasks()

    def list_delete_statuses(caller, path):
        return [row["status"] for row in api_as(caller, "GET", path).json["data"] if row["kind"] == "volume_delete"]

    assert list_delete_statuses("owner", "/api/tasks") == ["completed"]
    assert list_delete_statuses("owner", "/api/tasks?status=failed") == []
    assert list_delete_statuses("admin", "/api/v1/tasks") == ["completed", "failed", "failed"]
    assert api_as("owner", "GET", f"/api/task/{first}").json["task"]["status"] == "failed"
    assert first not in browser_as("owner").get("/tasks").text


def test_volume_delete_is_retried_after_lost_task(call_storage_api, attached_volume, run_tasks, volumes_on_node):
    """Also volumes that an earlier version left in `deleting`."""
    volume_id = attached_volume.id
    call_storage_api("DELETE", f"volume/{volume_id}")
    lost = session.get(Task, attached_volume.task_id)
    lost.status, lost.finished_at = "failed", clock.now()
    session.commit()
    retry_deletes()
    run_tasks()
    assert session.get(Volume, volume_id) is None
    assert volumes_on_node() == {}


def test_volume_delete_after_failed_detach_succeeds(
    call_storage_api, attached_volume, run_tasks, node, machine, volumes_on_node, assert_volume_gone
):
    """The disk is still attached to the machine, although the row has no instance."""
    node.fault("detach_disk", "refuse", 1)
    volume_id = attached_volume.id
    call_storage_api("POST", f"volume/{volume_id}/detach")
    call_storage_api("DELETE", f"volume/{volume_id}")
    run_tasks()
    assert_volume_gone(volume_id)
    assert session.get(Volume, volume_id) is None
    assert volumes_on_node(machine) == ({}, [])


@pytest.mark.parametrize("before", ["resize", "snapshot", "detach"])
def test_failed_earlier_operation_does_not_undo_volume_delete(
    call_storage_api, attached_volume, run_tasks, node, plans, assert_volume_gone, before
):
    volume_id, path = attached_volume.id, f"volume/{attached_volume.id}"
    step = {"resize": "grow_disk", "snapshot": "copy_disk", "detach": "detach_disk"}[before]
    if before == "resize":
        call_storage_api("PATCH", f"{path}/resize", volume_plan_id=plans["large"].id)
    elif before == "detach":
        call_storage_api("POST", f"{path}/detach")
    else:
        call_storage_api("POST", f"{path}/snapshot", name="s")
        run_tasks()
        call_storage_api("DELETE", f"{path}/snapshot/{attached_volume.snapshots[0].id}")
        step = "delete_disk"
    assert call_storage_api("DELETE", path).status_code == 200
    node.fault(step, "refuse", 1)
    run_tasks()
    assert_volume_gone(volume_id)
    if session.get(Volume, volume_id):
        make_retry_due(attached_volume)
        run_tasks()
    assert session.get(Volume, volume_id) is None
    assert all(record.ended_at for record in session.query(MeteringRecord).filter_by(resource_id=volume_id))


def test_volume_deletion_cannot_be_cancelled(call_storage_api, api_as, attached_volume):
    call_storage_api("DELETE", f"volume/{attached_volume.id}")
    for path in ("/api/task", "/api/v1/task"):
        answer = api_as("admin" if "v1" in path else "owner", "POST", f"{path}/{attached_volume.task_id}/cancel")
        assert answer.json["reason"] == "not_cancellable"


def test_operator_sees_volumes_that_cannot_be_deleted(
    call_storage_api, api_as, browser_as, attached_volume, run_tasks, node
):
    """On the overview, in the lists of volumes and failed jobs, and in `panel doctor`."""
    node.fault("delete_disk", "refuse", 1)
    call_storage_api("DELETE", f"volume/{attached_volume.id}")
    run_tasks()
    operator = browser_as("admin")
    assert f"Deleted volume {attached_volume.name} still exists" in operator.get("/admin").text
    page = operator.get("/admin/volumes").text
    assert "Deleting" in page
    assert "1 failed attempt" in page
    assert f"{attached_volume.id}/delete" not in page
    groups = api_as("admin", "GET", "/api/v1/system/failed-jobs").json["data"]["groups"]
    assert "volume_delete" in [group["job"] for group in groups]
    assert session.scalars(overview.select_undeleted_volumes()).all() == [attached_volume]
    with pytest.raises(doctor.CheckFailed, match=attached_volume.disk_name):
        doctor.check_volumes(None)
    assert browser_as("owner").get(f"/volumes/{attached_volume.id}").status_code == 404


def test_volume_delete_is_retried_after_three_lost_workers(call_storage_api, attached_volume, run_tasks):
    from worker.engine.reaper import requeue_or_fail

    call_storage_api("DELETE", f"volume/{attached_volume.id}")
    row = session.get(Task, attached_volume.task_id)
    row.status, row.worker, row.attempt, row.heartbeat_at = "running", "dead", 3, clock.now()
    session.commit()
    requeue_or_fail(row.id, "dead", row.heartbeat_at)
    assert (row.status, attached_volume.status) == ("failed", "deleting")
    assert attached_volume.next_delete_at > clock.now() + timedelta(seconds=1)
    make_retry_due(attached_volume)
    run_tasks()
    assert session.get(Volume, attached_volume.id) is None
