"""Nodes that fail and workers that die while they work on volumes: the row tells the truth, nothing is lost."""

import pytest

from panel.core.db import session
from panel.models import Rental, Task
from tests.live_snapshots.test_faults import by_another_worker


@pytest.fixture
def attached(call, volume, work, machine):
    call("POST", f"volume/{volume.id}/attach", instance_id=machine.id)
    work()
    return volume


def latest(volume):
    return session.get(Task, volume.task_id)


@pytest.mark.parametrize("kind", ["full", "lost-answer"])
def test_one_that_could_not_be_made(call, place, work, node, on_node, kind):
    node.fault("create_disk", kind, 1)
    made = call("POST", "volumes", name="x", **place).json["volume"]["id"]
    work()
    found = call("GET", f"volume/{made}").json["volume"]
    assert (found["status"], bool(found["error"]), on_node()) == ("failed", True, {})
    call("DELETE", f"volume/{made}")
    work()
    assert call("GET", "volumes").json["data"] == []


@pytest.mark.parametrize("kind", ["refuse", "lost-answer"])
def test_one_that_could_not_be_attached(call, volume, work, machine, node, on_node, kind):
    node.fault("attach_disk", kind, 1)
    call("POST", f"volume/{volume.id}/attach", instance_id=machine.id)
    work()
    assert (volume.status, volume.instance_id, bool(volume.error)) == ("available", None, True)
    assert on_node(machine)[1] == []


def test_one_that_the_guest_does_not_let_go(call, attached, work, machine, node, on_node):
    node.fault("detach_disk", "refuse", 1)
    assert call("POST", f"volume/{attached.id}/detach").status_code == 200
    work()
    assert (attached.status, attached.instance_id, bool(attached.error)) == ("attached", machine.id, True)
    assert on_node(machine)[1] == [attached.disk_name]
    rental = session.query(Rental).filter_by(resource_id=attached.id).one()
    assert rental.ended_at is None


def test_one_that_could_not_grow(call, attached, work, node, plans):
    node.fault("grow_disk", "full", 1)
    call("PATCH", f"volume/{attached.id}/resize", volume_plan_id=plans["large"].id)
    work()
    assert (attached.size, attached.plan.name, bool(attached.error)) == (10, "small", True)
    assert attached.growing_to is None


@pytest.mark.parametrize("step", ["lay_overlays", "copy_disk", "merge_overlay"])
def test_a_copy_that_failed_leaves_the_volume_alone(call, attached, work, node, on_node, step):
    node.fault(step, "refuse", 1)
    call("POST", f"volume/{attached.id}/snapshot", name="s")
    work()
    [row] = call("GET", f"volume/{attached.id}").json["volume"]["snapshots"]
    assert (row["status"], bool(row["error"])) == ("failed", True)
    assert list(on_node()) == [attached.disk_name]
    assert call("DELETE", f"volume/{attached.id}/snapshot/{row['id']}").status_code == 200
    work()
    assert call("GET", f"volume/{attached.id}").json["volume"]["snapshots"] == []


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("step", ["lay_overlays", "copy_disk", "merge_overlay"])
def test_a_worker_dies_while_copying(call, attached, die, on_node, step, after):
    call("POST", f"volume/{attached.id}/snapshot", name="s")
    die(latest(attached), step, after=after)
    assert by_another_worker(latest(attached)).status == "completed"
    assert set(on_node()) == {attached.disk_name, attached.snapshots[0].disk_name}
    assert attached.snapshots[0].status == "available"


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("step", ["copy_disk", "grow_disk", "delete_disk"])
def test_a_worker_dies_while_putting_back(call, volume, work, die, on_node, step, after):
    call("POST", f"volume/{volume.id}/snapshot", name="s")
    work()
    before = volume.disk_name
    call("POST", f"volume/{volume.id}/snapshot/{volume.snapshots[0].id}/restore", mode="in_place")
    die(latest(volume), step, after=after)
    assert by_another_worker(latest(volume)).status == "completed"
    assert volume.disk_name != before
    assert set(on_node()) == {volume.disk_name, volume.snapshots[0].disk_name}


@pytest.mark.parametrize("step", ["detach_disk", "delete_disk"])
def test_a_worker_dies_while_deleting(call, attached, die, on_node, machine, step):
    call("DELETE", f"volume/{attached.id}")
    asked = latest(attached)
    die(asked, step)
    assert by_another_worker(asked).status == "completed"
    assert on_node(machine) == ({}, [])
