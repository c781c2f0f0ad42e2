"""Volumes by the customers' API: what the public clients send and decode."""

import pytest
from sqlalchemy import select

from panel.core.db import session
from panel.models import Hypervisor, Rental, Storage, Volume
from panel.services import hypervisors, settings
from worker.sync import node_sync as nodes


def test_the_whole_life(call, as_, place, plans, work, machine, on_node):
    made = call("POST", "volumes", name="data", **place)
    assert made.status_code == 200
    volume = made.json["volume"]
    assert {"name": "data", "status": "pending", "deployed": False, "size": 10, "instance_id": None}.items() <= (
        volume.items()
    )
    assert {"dev", "path", "project_id", "snapshots"} <= volume.keys()
    path = f"volume/{volume['id']}"
    work()
    assert call("GET", path).json["volume"]["status"] == "available"
    name = session.get(Volume, volume["id"]).disk_name
    assert on_node() == {name: 10}
    attached = call("POST", f"{path}/attach", instance_id=machine.id).json["volume"]
    serial = name.removesuffix(".qcow2")
    assert (attached["status"], attached["instance_id"]) == ("attached", machine.id)
    assert attached["dev"] == f"/dev/disk/by-id/virtio-{serial}"
    work()
    assert on_node(machine) == ({name: 10}, [name])
    resized = call("PATCH", f"{path}/resize", volume_plan_id=plans["large"].id).json
    assert (resized["success"], resized["is_downgrade"], resized["volume"]["size"]) == (True, False, 10)
    assert resized["volume"]["volume_plan_id"] == plans["large"].id
    work()
    assert call("GET", path).json["volume"]["size"] == 20
    assert on_node() == {name: 20}
    detached = call("POST", f"{path}/detach").json["volume"]
    assert (detached["status"], detached["instance_id"], detached["dev"]) == ("available", None, None)
    work()
    assert on_node(machine) == ({name: 20}, [])
    gone = call("DELETE", path)
    assert gone.json["success"] is True
    assert call("GET", path).status_code == 404
    assert call("GET", "volumes").json["data"] == []
    work()
    assert on_node() == {}
    assert session.get(Volume, volume["id"]) is None
    rentals = session.execute(select(Rental.plan, Rental.ended_at).where(Rental.resource_type == "volume")).all()
    assert [(plan, ended is not None) for plan, ended in rentals] == [("small", True), ("large", True)]


def test_one_thing_after_the_other_without_waiting(call, volume, work, machine, on_node, cast, as_):
    """As the infrastructure-as-code provider does it: detach, attach, delete in a row."""
    path = f"volume/{volume.id}"
    for _ in range(3):
        assert call("POST", f"{path}/attach", instance_id=machine.id).status_code == 200
        assert call("POST", f"{path}/detach").status_code == 200
    call("POST", f"{path}/attach", instance_id=machine.id)
    work()
    assert on_node(machine)[1] == [volume.disk_name]
    call("DELETE", path)
    work()
    assert on_node(machine) == ({}, [])


def test_a_stopped_machine_and_a_start(call, as_, volume, work, machine, on_node):
    as_("owner", "POST", f"/api/instance/{machine.id}/power/poweroff")
    work()
    call("POST", f"volume/{volume.id}/attach", instance_id=machine.id)
    work()
    as_("owner", "POST", f"/api/instance/{machine.id}/power/start")
    work()
    assert on_node(machine)[1] == [volume.disk_name]


def test_what_cannot_be_attached(call, volume, work, machine, cast):
    path = f"volume/{volume.id}/attach"
    for wrong in (cast.instance("outsider").id, "nonsense"):
        assert list(call("POST", path, instance_id=wrong).json["errors"]) == ["instance_id"]
    assert call("POST", path, instance_id=cast.instance().id).json["reason"] == "not_deployed"
    call("POST", path, instance_id=machine.id)
    again = call("POST", path, instance_id=machine.id)
    assert (again.status_code, again.json["reason"]) == (422, "volume_not_available")
    work()
    call("POST", f"volume/{volume.id}/detach")
    assert call("POST", f"volume/{volume.id}/detach").json["reason"] == "volume_not_attached"


def test_elsewhere(call, volume, work, machine, cast):
    elsewhere = hypervisors.create_group(name="far", display_name="Far")
    session.get(Volume, volume.id).group = elsewhere
    session.commit()
    answer = call("POST", f"volume/{volume.id}/attach", instance_id=machine.id)
    assert (answer.status_code, list(answer.json["errors"])) == (422, ["instance_id"])


@pytest.fixture
def second_node(cast):
    made = hypervisors.create(
        session.get(Hypervisor, cast.node.id).group,
        name="node-2",
        driver="simulated",
        uri="simulated://?storage_gb=20000",
        storage_path="/srv/disks",
    )
    session.commit()
    nodes.check(made.id)
    return made


def test_an_unused_volume_comes_to_its_first_instance(call, place, machine, work, second_node, on_node):
    made = call("POST", "volumes", name="data", **place).json["volume"]["id"]
    work()
    volume = session.get(Volume, made)
    assert volume.on.hypervisor_id == second_node.id  # there is more room
    assert call("POST", f"volume/{made}/attach", instance_id=machine.id).status_code == 200
    work()
    assert on_node(machine) == ({volume.disk_name: 10}, [volume.disk_name])
    assert session.get(Storage, volume.storage_id).hypervisor_id == machine.hypervisor_id
    call("POST", f"volume/{made}/detach")
    work()
    volume.on = second_node.storages[0]
    session.commit()
    answer = call("POST", f"volume/{made}/attach", instance_id=machine.id)
    assert (answer.status_code, list(answer.json["errors"])) == (422, ["instance_id"])
    assert "another hypervisor" in answer.json["message"]


def test_plans(call, place, plans, volume, cast, work):
    """Storage cannot shrink and a volume stays in its class."""
    path = f"volume/{volume.id}/resize"
    assert call("PATCH", path, volume_plan_id=plans["cheap"].id).json["is_downgrade"] is True
    call("PATCH", path, volume_plan_id=plans["large"].id)
    work()
    for wrong in (plans["small"].id, plans["other"].id, "nonsense"):
        answer = call("PATCH", path, volume_plan_id=wrong)
        assert (answer.status_code, list(answer.json["errors"])) == (422, ["volume_plan_id"])
    for field in ("volume_plan_id", "hypervisor_group_id"):
        answer = call("POST", "volumes", name="x", **{**place, field: "nonsense"})
        assert (answer.status_code, list(answer.json["errors"])) == (422, [field])
    foreign = call("POST", "volumes", name="x", project_id="nonsense", **place)
    assert list(foreign.json["errors"]) == ["project_id"]
    plans["large"].size = 20000
    session.commit()
    full = call("POST", "volumes", name="x", **{**place, "volume_plan_id": plans["large"].id})
    assert (full.status_code, full.json["reason"]) == (422, "storage_not_sufficient")
    assert [plan["name"] for plan in call("GET", "volumes/create").json["volume_plans"]] == [
        "cheap",
        "huge",
        "large",
        "other",
        "small",
    ]


def test_volumes_take_room(call, volume, plans, as_, cast):
    before = hypervisors.promised([volume.storage_id])
    assert before[volume.storage_id] >= 10
    assert hypervisors.usage([cast.node.id])[cast.node.id]["storage"] == before[volume.storage_id]
    answer = as_("admin", "GET", "/api/v1/hypervisors")
    assert answer.status_code == 200


def test_snapshots_and_putting_them_back(call, volume, work, machine, node, on_node, place, plans):
    path = f"volume/{volume.id}"
    call("POST", f"{path}/attach", instance_id=machine.id)
    work()
    disk = {"pool": "default", "name": volume.disk_name}
    from worker.nodes.simulated import overlays

    overlays.write(node.state, disk, "/file", "before")
    made = call("POST", f"{path}/snapshot", name="one").json
    assert made["queue"].keys() == {"id", "operation", "source_id", "status"}
    assert call("POST", f"{path}/snapshot", name="one").json["errors"].keys() == {"name"}
    work()
    [row] = call("GET", path).json["volume"]["snapshots"]
    assert (row["name"], row["status"], row["size"]) == ("one", "available", 10 * 1024**3)
    overlays.write(node.state, disk, "/file", "after")
    restore = f"{path}/snapshot/{row['id']}/restore"
    assert call("POST", restore, mode="in_place").status_code == 422
    call("POST", f"{path}/detach")
    work()
    dev = volume.disk_name
    assert call("POST", restore, mode="in_place").json["queue"]["operation"] == "volume_restore"
    work()
    assert overlays.files(node.state, {"pool": "default", "name": volume.disk_name}) == {"/file": "before"}
    assert volume.disk_name.partition(".")[0] == dev.partition(".")[0]
    assert dev not in on_node()
    assert len(on_node()) == 2
    assert call("POST", restore, mode="new_volume").json["errors"].keys() == {"volume_plan_id"}
    call("POST", restore, mode="new_volume", **{**place, "volume_plan_id": plans["large"].id})
    work()
    newest = call("GET", "volumes").json["data"][0]
    assert (newest["name"], newest["size"], newest["status"]) == ("data from one", 20, "available")
    copy = session.get(Volume, newest["id"]).disk_name
    assert on_node()[copy] == 20
    assert overlays.files(node.state, {"pool": "default", "name": copy}) == {"/file": "before"}
    assert call("GET", path).json["volume"]["snapshots"][0]["status"] == "available"
    call("DELETE", f"{path}/snapshot/{row['id']}")
    work()
    assert call("GET", path).json["volume"]["snapshots"] == []
    assert len(on_node()) == 2


def test_a_destroyed_instance_leaves_its_volumes(call, as_, volume, work, machine, on_node):
    call("POST", f"volume/{volume.id}/attach", instance_id=machine.id)
    work()
    as_("owner", "DELETE", f"/api/cloud-service/instances/{machine.id}")
    work()
    found = call("GET", f"volume/{volume.id}").json["volume"]
    assert (found["status"], found["instance_id"]) == ("available", None)
    assert volume.disk_name in on_node()


def test_snapshots_of_the_machine_and_volumes_exclude_each_other(call, as_, volume, work, machine):
    call("POST", f"volume/{volume.id}/attach", instance_id=machine.id)
    work()
    taken = lambda: as_("owner", "POST", f"/api/instance/{machine.id}/snapshot", json={"snapname": "s"})  # noqa: E731
    assert taken().json["reason"] == "has_volumes"
    call("POST", f"volume/{volume.id}/detach")
    work()
    assert taken().status_code == 200
    work()
    assert call("POST", f"volume/{volume.id}/attach", instance_id=machine.id).json["reason"] == "has_snapshots"


def test_the_gate(call, volume, place):
    """BIL-10"""
    settings.update({"billing_enabled": False})
    session.commit()
    for answer in (
        call("GET", "volumes"),
        call("POST", "volumes", name="x", **place),
        call("GET", f"volume/{volume.id}"),
    ):
        assert (answer.status_code, answer.json["reason"]) == (403, "billing_disabled")


def test_whose_they_are(call, volume):
    assert call("GET", f"volume/{volume.id}", "outsider").status_code == 404
    assert call("GET", "volumes", "outsider").json["data"] == []
    assert call("GET", "volumes", "member").json["data"] == []


def test_a_list_costs_the_same_however_long(call, place, work, queries):
    def cost():
        queries.clear()
        call("GET", "volumes")
        return len(queries)

    call("POST", "volumes", name="1", **place)
    before = cost()
    for name in "2345":
        call("POST", "volumes", name=name, **place)
    assert cost() == before


def test_operators(as_, volume, work, machine, call):
    admin = lambda method, path, **body: as_("admin", method, f"/api/v1/{path}", **({"json": body} if body else {}))  # noqa: E731
    [row] = admin("GET", "volumes").json["data"]
    assert (row["owner"], row["disk_name"]) == ("owner@example.com", volume.disk_name)
    call("POST", f"volume/{volume.id}/attach", instance_id=machine.id)
    work()
    assert admin("PATCH", f"volume/{volume.id}/detach").json["data"]["status"] == "available"
    work()
    assert admin("POST", f"volume/{volume.id}/snapshot", name="s").json["data"]["queue"]["id"]
    work()
    kept = admin("GET", f"volume/{volume.id}").json["data"]["snapshots"][0]["id"]
    assert admin("POST", f"volume/{volume.id}/snapshot/{kept}/restore", mode="in_place").status_code == 200
    work()
    assert admin("DELETE", f"volume/{volume.id}/snapshot/{kept}").status_code == 200
    work()
    assert admin("DELETE", f"volume/{volume.id}").status_code == 200
    work()
    assert admin("GET", "volumes").json["data"] == []


def test_operators_keep_the_plans(as_, plans, volume):
    def admin(method, path, **body):
        return as_("admin", method, f"/api/v1/volume/{path}", **({"json": body} if body else {}))

    group = admin("POST", "plan-groups", name="nvme").json["data"]
    assert group["display_name"] == "nvme"
    assert admin("POST", "plan-groups", name="nvme").status_code == 422
    assert admin("PATCH", f"plan-group/{group['id']}", enabled=False).json["data"]["enabled"] is False
    plan = admin("POST", "plans", volume_plan_group_id=group["id"], name="1", size=1).json["data"]
    assert admin("PATCH", f"plan/{plan['id']}", price=3).json["data"]["price"] == 3
    assert admin("DELETE", f"plan-group/{group['id']}").status_code == 409
    assert admin("DELETE", f"plan/{plan['id']}").status_code == 200
    assert admin("DELETE", f"plan-group/{group['id']}").status_code == 200
    assert admin("DELETE", f"plan/{plans['small'].id}").status_code == 409
    assert len(admin("GET", "plans").json["data"]) == 5
    assert [each["name"] for each in admin("GET", "plan-groups").json["data"]] == ["hdd", "ssd"]
