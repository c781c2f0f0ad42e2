"""Operations of one volume in a row: each is begun when the one before it succeeded (acceptance C3)."""

import pytest

from panel.core.db import session
from panel.models import Hypervisor, Rental, Storage, Task
from panel.services.hypervisors import promised
from tests.volumes.test_faults import attached  # noqa: F401  (fixture)

BEHIND = "It was not begun, because an earlier operation on the volume failed: The hypervisor refused this."


def tasks_of(volume):
    """Without its creation and the first attach."""
    found = session.query(Task).filter_by(resource_id=volume.id).order_by(Task.id)
    return [
        (task.kind, task.status, task.error) for task in found if task.kind not in ("volume_create", "volume_attach")
    ]


def test_what_is_behind_a_failed_detach_is_not_begun(call, attached, work, node, machine, plans, on_node):  # noqa: F811
    path = f"volume/{attached.id}"
    node.fault("detach_disk", "refuse", 1)
    detached = call("POST", f"{path}/detach").json["volume"]
    assert (detached["status"], detached["instance_id"], detached["dev"]) == ("available", None, None)
    assert detached["pending"] == {"operation": "volume_detach", "task_id": attached.task_id}
    resized = call("PATCH", f"{path}/resize", volume_plan_id=plans["large"].id).json["volume"]
    assert (resized["size"], resized["volume_plan_id"]) == (10, plans["large"].id)
    assert resized["pending"]["operation"] == "volume_resize"
    queue = call("POST", f"{path}/snapshot", name="s").json["queue"]
    shown = call("GET", path).json["volume"]
    assert shown["pending"] == {"operation": queue["operation"], "task_id": queue["id"]}
    work()
    assert tasks_of(attached) == [
        ("volume_detach", "failed", "The hypervisor refused this."),
        ("volume_resize", "failed", BEHIND),
        ("volume_snapshot", "failed", BEHIND),
    ]
    shown = call("GET", path).json["volume"]
    assert (shown["status"], shown["instance_id"], shown["size"]) == ("attached", machine.id, 10)
    assert (shown["volume_plan_id"], shown["pending"], shown["error"]) == (plans["small"].id, None, BEHIND)
    assert [(each["status"], each["error"]) for each in shown["snapshots"]] == [("failed", BEHIND)]
    assert on_node(machine) == ({attached.disk_name: 10}, [attached.disk_name])
    # Asked for again, nothing is behind the failed one any more.
    call("POST", f"{path}/detach")
    call("PATCH", f"{path}/resize", volume_plan_id=plans["large"].id)
    work()
    shown = call("GET", path).json["volume"]
    assert (shown["status"], shown["size"], shown["pending"], shown["error"]) == ("available", 20, None, None)


def test_an_attach_behind_a_failed_detach(call, attached, work, node, machine, cast, as_):  # noqa: F811
    """The volume is where it was, whatever the answers said meanwhile."""
    other = cast.instance()
    as_("owner", "POST", f"/api/instance/{other.id}/deploy", json={"image_id": cast.image.id})
    work()
    node.fault("detach_disk", "refuse", 1)
    path = f"volume/{attached.id}"
    call("POST", f"{path}/detach")
    assert call("POST", f"{path}/attach", instance_id=other.id).json["volume"]["instance_id"] == other.id
    call("POST", f"{path}/detach")
    work()
    assert (attached.status, attached.instance_id) == ("attached", machine.id)


def test_a_restore_behind_a_failed_detach(call, attached, work, node, on_node):  # noqa: F811
    path = f"volume/{attached.id}"
    call("POST", f"{path}/snapshot", name="s")
    work()
    node.fault("detach_disk", "refuse", 1)
    call("POST", f"{path}/detach")
    call("POST", f"{path}/snapshot/{attached.snapshots[0].id}/restore", mode="in_place")
    name = attached.disk_name
    work()
    assert (attached.disk_name, attached.snapshots[0].status) == (name, "available")
    assert set(on_node()) == {name, attached.snapshots[0].disk_name}


@pytest.mark.parametrize("failing", [1, 2])
def test_two_resizes_in_a_row(call, attached, work, node, plans, failing):  # noqa: F811
    """The plan is the one of the last resize that succeeded."""
    if failing == 1:
        node.fault("grow_disk", "refuse", 1)
    call("PATCH", f"volume/{attached.id}/resize", volume_plan_id=plans["large"].id)
    if failing == 2:
        work()
        node.fault("grow_disk", "refuse", 1)
    call("PATCH", f"volume/{attached.id}/resize", volume_plan_id=plans["huge"].id)
    work()
    expected = ("small", 10) if failing == 1 else ("large", 20)
    assert (attached.plan.name, attached.size, attached.growing_to) == (*expected, None)
    rental = session.query(Rental).filter_by(resource_id=attached.id, ended_at=None).one()
    assert rental.plan == expected[0]


def test_a_resize_takes_its_room_at_once(call, attached, plans, work):  # noqa: F811
    storage = session.query(Storage).join(Hypervisor).filter(Storage.id == attached.storage_id).one()
    before = promised([storage.id])[storage.id]
    call("PATCH", f"volume/{attached.id}/resize", volume_plan_id=plans["large"].id)
    assert promised([storage.id])[storage.id] == before + 10
    work()
    assert promised([storage.id])[storage.id] == before + 10


def test_one_that_is_cancelled_counts_as_failed(call, as_, attached, work, plans):  # noqa: F811
    path = f"volume/{attached.id}"
    call("POST", f"{path}/detach")
    first = attached.task_id
    call("PATCH", f"{path}/resize", volume_plan_id=plans["large"].id)
    assert as_("owner", "POST", f"/api/task/{first}/cancel").status_code == 200
    work()
    assert (attached.status, attached.size, attached.plan.name) == ("attached", 10, "small")
    assert tasks_of(attached)[1][2].endswith("It was cancelled.")
