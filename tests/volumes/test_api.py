"""Volumes in the customers' API: what the public clients send and decode."""

import pytest
from sqlalchemy import select

from panel.core.db import session
from panel.models import Hypervisor, MeteringRecord, Storage, Volume
from panel.services import hypervisors, settings
from worker.sync import node_sync as nodes


def test_volume_create_attach_resize_delete(
    call_storage_api, api_as, volume_body, plans, run_tasks, machine, volumes_on_node
):
    answer = call_storage_api("POST", "volumes", name="data", **volume_body)
    assert answer.status_code == 200
    volume = answer.json["volume"]
    assert {"name": "data", "status": "pending", "deployed": False, "size": 10, "instance_id": None}.items() <= (
        volume.items()
    )
    assert {"dev", "path", "project_id", "snapshots"} <= volume.keys()
    path = f"volume/{volume['id']}"
    run_tasks()
    assert call_storage_api("GET", path).json["volume"]["status"] == "available"
    name = session.get(Volume, volume["id"]).disk_name
    assert volumes_on_node() == {name: 10}
    attached = call_storage_api("POST", f"{path}/attach", instance_id=machine.id).json["volume"]
    serial = name.removesuffix(".qcow2")
    assert (attached["status"], attached["instance_id"]) == ("attached", machine.id)
    assert attached["dev"] == f"/dev/disk/by-id/virtio-{serial}"
    run_tasks()
    assert volumes_on_node(machine) == ({name: 10}, [name])
    resized = call_storage_api("PATCH", f"{path}/resize", volume_plan_id=plans["large"].id).json
    assert (resized["success"], resized["is_downgrade"], resized["volume"]["size"]) == (True, False, 10)
    assert resized["volume"]["volume_plan_id"] == plans["large"].id
    run_tasks()
    assert call_storage_api("GET", path).json["volume"]["size"] == 20
    assert volumes_on_node() == {name: 20}
    detached = call_storage_api("POST", f"{path}/detach").json["volume"]
    assert (detached["status"], detached["instance_id"], detached["dev"]) == ("available", None, None)
    run_tasks()
    assert volumes_on_node(machine) == ({name: 20}, [])
    gone = call_storage_api("DELETE", path)
    assert gone.json["success"] is True
    assert call_storage_api("GET", path).status_code == 404
    assert call_storage_api("GET", "volumes").json["data"] == []
    run_tasks()
    assert volumes_on_node() == {}
    assert session.get(Volume, volume["id"]) is None
    records = session.execute(
        select(MeteringRecord.plan, MeteringRecord.ended_at).where(MeteringRecord.resource_type == "volume")
    ).all()
    assert [(plan, ended is not None) for plan, ended in records] == [("small", True), ("large", True)]


def test_volume_operations_are_queued_in_order(
    call_storage_api, volume, run_tasks, machine, volumes_on_node, cast, api_as
):
    """The infrastructure-as-code provider sends detach, attach and delete without waiting."""
    path = f"volume/{volume.id}"
    for _ in range(3):
        assert call_storage_api("POST", f"{path}/attach", instance_id=machine.id).status_code == 200
        assert call_storage_api("POST", f"{path}/detach").status_code == 200
    call_storage_api("POST", f"{path}/attach", instance_id=machine.id)
    run_tasks()
    assert volumes_on_node(machine)[1] == [volume.disk_name]
    call_storage_api("DELETE", path)
    run_tasks()
    assert volumes_on_node(machine) == ({}, [])


def test_volume_attached_while_stopped_is_used_at_start(
    call_storage_api, api_as, volume, run_tasks, machine, volumes_on_node
):
    api_as("owner", "POST", f"/api/instance/{machine.id}/power/poweroff")
    run_tasks()
    call_storage_api("POST", f"volume/{volume.id}/attach", instance_id=machine.id)
    run_tasks()
    api_as("owner", "POST", f"/api/instance/{machine.id}/power/start")
    run_tasks()
    assert volumes_on_node(machine)[1] == [volume.disk_name]


def test_volume_attach_and_detach_refusals(call_storage_api, volume, run_tasks, machine, cast):
    path = f"volume/{volume.id}/attach"
    for wrong in (cast.instance("outsider").id, "nonsense"):
        assert list(call_storage_api("POST", path, instance_id=wrong).json["errors"]) == ["instance_id"]
    assert call_storage_api("POST", path, instance_id=cast.instance().id).json["reason"] == "not_deployed"
    call_storage_api("POST", path, instance_id=machine.id)
    again = call_storage_api("POST", path, instance_id=machine.id)
    assert (again.status_code, again.json["reason"]) == (422, "volume_not_available")
    run_tasks()
    call_storage_api("POST", f"volume/{volume.id}/detach")
    assert call_storage_api("POST", f"volume/{volume.id}/detach").json["reason"] == "volume_not_attached"


def test_volume_attach_refused_in_other_location(call_storage_api, volume, run_tasks, machine, cast):
    elsewhere = hypervisors.create_group(name="far", display_name="Far")
    session.get(Volume, volume.id).group = elsewhere
    session.commit()
    answer = call_storage_api("POST", f"volume/{volume.id}/attach", instance_id=machine.id)
    assert (answer.status_code, list(answer.json["errors"])) == (422, ["instance_id"])


@pytest.fixture
def second_node(cast):
    hypervisor = hypervisors.create(
        session.get(Hypervisor, cast.node.id).group,
        name="node-2",
        driver="simulated",
        uri="simulated://?storage_gb=20000",
        storage_path="/srv/disks",
    )
    session.commit()
    nodes.probe(hypervisor.id)
    return hypervisor


def test_unused_volume_moves_to_node_of_first_instance(
    call_storage_api, volume_body, machine, run_tasks, second_node, volumes_on_node
):
    volume_id = call_storage_api("POST", "volumes", name="data", **volume_body).json["volume"]["id"]
    run_tasks()
    volume = session.get(Volume, volume_id)
    assert volume.storage.hypervisor_id == second_node.id  # it has more free space
    assert call_storage_api("POST", f"volume/{volume_id}/attach", instance_id=machine.id).status_code == 200
    run_tasks()
    assert volumes_on_node(machine) == ({volume.disk_name: 10}, [volume.disk_name])
    assert session.get(Storage, volume.storage_id).hypervisor_id == machine.hypervisor_id
    call_storage_api("POST", f"volume/{volume_id}/detach")
    run_tasks()
    volume.storage = second_node.storages[0]
    session.commit()
    answer = call_storage_api("POST", f"volume/{volume_id}/attach", instance_id=machine.id)
    assert (answer.status_code, list(answer.json["errors"])) == (422, ["instance_id"])
    assert "another hypervisor" in answer.json["message"]


def test_volume_resize_checks_plan(call_storage_api, volume_body, plans, volume, cast, run_tasks):
    """Storage cannot shrink and a volume stays in its class."""
    path = f"volume/{volume.id}/resize"
    assert call_storage_api("PATCH", path, volume_plan_id=plans["cheap"].id).json["is_downgrade"] is True
    call_storage_api("PATCH", path, volume_plan_id=plans["large"].id)
    run_tasks()
    for wrong in (plans["small"].id, plans["other"].id, "nonsense"):
        answer = call_storage_api("PATCH", path, volume_plan_id=wrong)
        assert (answer.status_code, list(answer.json["errors"])) == (422, ["volume_plan_id"])
    for field in ("volume_plan_id", "hypervisor_group_id"):
        answer = call_storage_api("POST", "volumes", name="x", **{**volume_body, field: "nonsense"})
        assert (answer.status_code, list(answer.json["errors"])) == (422, [field])
    foreign = call_storage_api("POST", "volumes", name="x", project_id="nonsense", **volume_body)
    assert list(foreign.json["errors"]) == ["project_id"]
    plans["large"].size = 20000
    session.commit()
    full = call_storage_api("POST", "volumes", name="x", **{**volume_body, "volume_plan_id": plans["large"].id})
    assert (full.status_code, full.json["reason"]) == (422, "storage_not_sufficient")
    assert [plan["name"] for plan in call_storage_api("GET", "volumes/create").json["volume_plans"]] == [
        "cheap",
        "huge",
        "large",
        "other",
        "small",
    ]


def test_volume_is_counted_as_allocated_storage(call_storage_api, volume, plans, api_as, cast):
    assert volume.storage.allocated >= 10
    assert cast.node.allocation.storage == volume.storage.allocated
    answer = api_as("admin", "GET", "/api/v1/hypervisors")
    assert answer.status_code == 200


def test_volume_snapshot_restore_in_place_and_as_new_volume(
    call_storage_api, volume, run_tasks, machine, node, volumes_on_node, volume_body, plans
):
    path = f"volume/{volume.id}"
    call_storage_api("POST", f"{path}/attach", instance_id=machine.id)
    run_tasks()
    disk = {"pool": "default", "name": volume.disk_name}
    from worker.nodes.simulated import overlays

    overlays.write_file(node.state, disk, "/file", "before")
    snapshot_answer = call_storage_api("POST", f"{path}/snapshot", name="one").json
    assert snapshot_answer["queue"].keys() == {"id", "operation", "source_id", "status"}
    assert call_storage_api("POST", f"{path}/snapshot", name="one").json["errors"].keys() == {"name"}
    run_tasks()
    [row] = call_storage_api("GET", path).json["volume"]["snapshots"]
    assert (row["name"], row["status"], row["size"]) == ("one", "available", 10 * 1024**3)
    overlays.write_file(node.state, disk, "/file", "after")
    restore = f"{path}/snapshot/{row['id']}/restore"
    assert call_storage_api("POST", restore, mode="in_place").status_code == 422
    call_storage_api("POST", f"{path}/detach")
    run_tasks()
    dev = volume.disk_name
    assert call_storage_api("POST", restore, mode="in_place").json["queue"]["operation"] == "volume_restore"
    run_tasks()
    assert overlays.read_files(node.state, {"pool": "default", "name": volume.disk_name}) == {"/file": "before"}
    assert volume.disk_name.partition(".")[0] == dev.partition(".")[0]
    assert dev not in volumes_on_node()
    assert len(volumes_on_node()) == 2
    assert call_storage_api("POST", restore, mode="new_volume").json["errors"].keys() == {"volume_plan_id"}
    call_storage_api("POST", restore, mode="new_volume", **{**volume_body, "volume_plan_id": plans["large"].id})
    run_tasks()
    newest = call_storage_api("GET", "volumes").json["data"][0]
    assert (newest["name"], newest["size"], newest["status"]) == ("data from one", 20, "available")
    copy = session.get(Volume, newest["id"]).disk_name
    assert volumes_on_node()[copy] == 20
    assert overlays.read_files(node.state, {"pool": "default", "name": copy}) == {"/file": "before"}
    assert call_storage_api("GET", path).json["volume"]["snapshots"][0]["status"] == "available"
    call_storage_api("DELETE", f"{path}/snapshot/{row['id']}")
    run_tasks()
    assert call_storage_api("GET", path).json["volume"]["snapshots"] == []
    assert len(volumes_on_node()) == 2


def test_destroy_keeps_attached_volumes(call_storage_api, api_as, volume, run_tasks, machine, volumes_on_node):
    call_storage_api("POST", f"volume/{volume.id}/attach", instance_id=machine.id)
    run_tasks()
    api_as("owner", "DELETE", f"/api/cloud-service/instances/{machine.id}")
    run_tasks()
    listed_volume = call_storage_api("GET", f"volume/{volume.id}").json["volume"]
    assert (listed_volume["status"], listed_volume["instance_id"]) == ("available", None)
    assert volume.disk_name in volumes_on_node()


def test_instance_snapshots_and_volumes_exclude_each_other(call_storage_api, api_as, volume, run_tasks, machine):
    call_storage_api("POST", f"volume/{volume.id}/attach", instance_id=machine.id)
    run_tasks()
    take_snapshot = lambda: api_as("owner", "POST", f"/api/instance/{machine.id}/snapshot", json={"snapname": "s"})  # noqa: E731
    assert take_snapshot().json["reason"] == "has_volumes"
    call_storage_api("POST", f"volume/{volume.id}/detach")
    run_tasks()
    assert take_snapshot().status_code == 200
    run_tasks()
    assert (
        call_storage_api("POST", f"volume/{volume.id}/attach", instance_id=machine.id).json["reason"] == "has_snapshots"
    )


def test_volume_routes_require_billing(call_storage_api, volume, volume_body):
    """BIL-10"""
    settings.update({"billing_enabled": False})
    session.commit()
    for answer in (
        call_storage_api("GET", "volumes"),
        call_storage_api("POST", "volumes", name="x", **volume_body),
        call_storage_api("GET", f"volume/{volume.id}"),
    ):
        assert (answer.status_code, answer.json["reason"]) == (403, "billing_disabled")


def test_volumes_are_visible_to_owner_and_team(call_storage_api, volume):
    assert call_storage_api("GET", f"volume/{volume.id}", "outsider").status_code == 404
    assert call_storage_api("GET", "volumes", "outsider").json["data"] == []
    assert call_storage_api("GET", "volumes", "member").json["data"] == []


def test_volume_list_has_constant_query_count(call_storage_api, volume_body, run_tasks, queries):
    def count_queries():
        queries.clear()
        call_storage_api("GET", "volumes")
        return len(queries)

    call_storage_api("POST", "volumes", name="1", **volume_body)
    before = count_queries()
    for name in "2345":
        call_storage_api("POST", "volumes", name=name, **volume_body)
    assert count_queries() == before


def test_operator_volume_routes(api_as, volume, run_tasks, machine, call_storage_api):
    admin = lambda method, path, **body: api_as("admin", method, f"/api/v1/{path}", **({"json": body} if body else {}))  # noqa: E731
    [row] = admin("GET", "volumes").json["data"]
    assert (row["owner"], row["disk_name"]) == ("owner@example.com", volume.disk_name)
    call_storage_api("POST", f"volume/{volume.id}/attach", instance_id=machine.id)
    run_tasks()
    assert admin("PATCH", f"volume/{volume.id}/detach").json["data"]["status"] == "available"
    run_tasks()
    assert admin("POST", f"volume/{volume.id}/snapshot", name="s").json["data"]["queue"]["id"]
    run_tasks()
    snapshot_id = admin("GET", f"volume/{volume.id}").json["data"]["snapshots"][0]["id"]
    assert admin("POST", f"volume/{volume.id}/snapshot/{snapshot_id}/restore", mode="in_place").status_code == 200
    run_tasks()
    assert admin("DELETE", f"volume/{volume.id}/snapshot/{snapshot_id}").status_code == 200
    run_tasks()
    assert admin("DELETE", f"volume/{volume.id}").status_code == 200
    run_tasks()
    assert admin("GET", "volumes").json["data"] == []


def test_operator_volume_plan_routes(api_as, plans, volume):
    def admin(method, path, **body):
        return api_as("admin", method, f"/api/v1/volume/{path}", **({"json": body} if body else {}))

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
    assert [plan_group["name"] for plan_group in admin("GET", "plan-groups").json["data"]] == ["hdd", "ssd"]
