"""Deleted volumes stay deleted: the panel goes on until their disks are gone (acceptance C2)."""

from datetime import timedelta

import pytest

from panel.cli import doctor
from panel.core import clock
from panel.core.db import session
from panel.models import Rental, Task, Volume
from panel.services import overview
from tests.volumes.test_faults import attached  # noqa: F401  (fixture)
from worker.tasks.volumes import MAX_DELETE_RETRY_SECONDS, retry_deletes


@pytest.fixture
def gone(call, as_):
    """Nobody but operators finds the volume."""

    def gone(volume_id):
        assert call("GET", f"volume/{volume_id}").status_code == 404
        assert call("POST", f"volume/{volume_id}/detach").status_code == 404
        assert call("GET", "volumes").json["data"] == []
        assert as_("admin", "GET", f"/api/v1/volume/{volume_id}").status_code == 404

    return gone


def later(volume):
    """As if the time of the next attempt had come."""
    volume.next_delete_at = clock.now()
    session.commit()
    retry_deletes()


@pytest.mark.parametrize("fault", ["refuse", "silent", "lost-answer"])
@pytest.mark.parametrize("step", ["detach_disk", "delete_disk"])
def test_a_delete_that_failed_is_tried_again(call, attached, work, machine, node, on_node, gone, step, fault):  # noqa: F811
    """Acceptance C2: 200, then 404 for ever, although the node refused at first."""
    node.fault(step, fault, 2)
    volume_id = attached.id
    assert call("DELETE", f"volume/{volume_id}").status_code == 200
    for attempt in (1, 2):
        gone(volume_id)
        work()
        gone(volume_id)
        assert (attached.status, attached.instance_id, attached.delete_attempts) == ("deleting", None, attempt)
        assert session.query(Rental).filter_by(resource_id=volume_id).one().ended_at is not None
        retry_deletes()
        work()
        assert attached.delete_attempts == attempt, "not before its time"
        later(attached)
    work()
    gone(volume_id)
    assert session.get(Volume, volume_id) is None
    assert on_node(machine) == ({}, [])


def test_attempts_become_rarer(call, attached, work, node):  # noqa: F811
    node.fault("delete_disk", "refuse", 12)
    call("DELETE", f"volume/{attached.id}")
    waits = []
    for _ in range(12):
        work()
        waits.append((attached.next_delete_at - clock.now()).total_seconds())
        later(attached)
    assert 5 < waits[0] < 11
    assert 15 < waits[1] < 21
    assert waits[-1] == pytest.approx(MAX_DELETE_RETRY_SECONDS, abs=60)
    work()
    assert session.get(Volume, attached.id) is None


def test_customers_see_one_task_of_a_deletion(call, as_, browse, attached, work, node):  # noqa: F811
    """Operators see each attempt. The task that the request has named stays where it is."""
    node.fault("delete_disk", "refuse", 2)
    call("DELETE", f"volume/{attached.id}")
    first = attached.task_id
    for _ in range(2):
        work()
        later(attached)
    work()

    def listed(who, path):
        return [row["status"] for row in as_(who, "GET", path).json["data"] if row["kind"] == "volume_delete"]

    assert listed("owner", "/api/tasks") == ["completed"]
    assert listed("owner", "/api/tasks?status=failed") == []
    assert listed("admin", "/api/v1/tasks") == ["completed", "failed", "failed"]
    assert as_("owner", "GET", f"/api/task/{first}").json["task"]["status"] == "failed"
    assert first not in browse("owner").get("/tasks").text


def test_a_deletion_whose_task_was_lost_goes_on(call, attached, work, on_node):  # noqa: F811
    """Also volumes that an earlier version left in `deleting`."""
    volume_id = attached.id
    call("DELETE", f"volume/{volume_id}")
    lost = session.get(Task, attached.task_id)
    lost.status, lost.finished_at = "failed", clock.now()
    session.commit()
    retry_deletes()
    work()
    assert session.get(Volume, volume_id) is None
    assert on_node() == {}


def test_a_detach_that_failed_keeps_nobody_from_deleting(call, attached, work, node, machine, on_node, gone):  # noqa: F811
    """The disk is still in the machine, although the row says that it is not."""
    node.fault("detach_disk", "refuse", 1)
    volume_id = attached.id
    call("POST", f"volume/{volume_id}/detach")
    call("DELETE", f"volume/{volume_id}")
    work()
    gone(volume_id)
    assert session.get(Volume, volume_id) is None
    assert on_node(machine) == ({}, [])


@pytest.mark.parametrize("before", ["resize", "snapshot", "detach"])
def test_what_failed_before_it_does_not_bring_it_back(call, attached, work, node, plans, gone, before):  # noqa: F811
    volume_id, path = attached.id, f"volume/{attached.id}"
    step = {"resize": "grow_disk", "snapshot": "copy_disk", "detach": "detach_disk"}[before]
    if before == "resize":
        call("PATCH", f"{path}/resize", volume_plan_id=plans["large"].id)
    elif before == "detach":
        call("POST", f"{path}/detach")
    else:
        call("POST", f"{path}/snapshot", name="s")
        work()
        call("DELETE", f"{path}/snapshot/{attached.snapshots[0].id}")
        step = "delete_disk"
    assert call("DELETE", path).status_code == 200
    node.fault(step, "refuse", 1)
    work()
    gone(volume_id)
    if session.get(Volume, volume_id):
        later(attached)
        work()
    assert session.get(Volume, volume_id) is None
    assert all(rental.ended_at for rental in session.query(Rental).filter_by(resource_id=volume_id))


def test_nobody_cancels_it(call, as_, attached):  # noqa: F811
    call("DELETE", f"volume/{attached.id}")
    for path in ("/api/task", "/api/v1/task"):
        answer = as_("admin" if "v1" in path else "owner", "POST", f"{path}/{attached.task_id}/cancel")
        assert answer.json["reason"] == "not_cancellable"


def test_operators_see_what_cannot_be_deleted(call, as_, browse, attached, work, node):  # noqa: F811
    """On the overview, among the volumes and among the failed jobs, and in what `panel doctor` looks at."""
    node.fault("delete_disk", "refuse", 1)
    call("DELETE", f"volume/{attached.id}")
    work()
    operator = browse("admin")
    assert f"The deleted volume {attached.name} still exists" in operator.get("/admin").text
    page = operator.get("/admin/volumes").text
    assert "Deleting" in page
    assert "1 failed attempt" in page
    assert f"{attached.id}/delete" not in page
    groups = as_("admin", "GET", "/api/v1/system/failed-jobs").json["data"]["groups"]
    assert "volume_delete" in [group["job"] for group in groups]
    assert session.scalars(overview.undeleted_volumes()).all() == [attached]
    with pytest.raises(doctor.Wrong, match=attached.disk_name):
        doctor.volumes(None)
    assert browse("owner").get(f"/volumes/{attached.id}").status_code == 404


def test_a_worker_that_is_lost_three_times(call, attached, work):  # noqa: F811
    from worker.engine.reaper import settle

    call("DELETE", f"volume/{attached.id}")
    row = session.get(Task, attached.task_id)
    row.status, row.worker, row.attempt, row.heartbeat_at = "running", "dead", 3, clock.now()
    session.commit()
    settle(row.id, "dead", row.heartbeat_at)
    assert (row.status, attached.status) == ("failed", "deleting")
    assert attached.next_delete_at > clock.now() + timedelta(seconds=1)
    later(attached)
    work()
    assert session.get(Volume, attached.id) is None
