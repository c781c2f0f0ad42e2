"""Moving instances by the operators' API."""

import pytest

from panel.core.db import session
from panel.models import Hypervisor, Instance
from panel.services import hypervisors, instances
from tests.migrations.conftest import again

MIGRATIONS = "/api/v1/migrations"
UNKNOWN = "0199c0a8-0000-7000-8000-000000000000"


@pytest.fixture
def path(machine):
    return f"/api/v1/instance/{machine.id}"


def test_a_move_is_begun_followed_and_told(as_, machine, second, path, work):
    """INS-11"""
    asked = as_("admin", "POST", MIGRATIONS, json={"instance_id": machine.id, "hypervisor_id": second.id})
    assert (asked.status_code, asked.json["data"].keys()) == (200, {"task_id", "migration_id"})
    for who, where in (("admin", path), ("owner", f"/api/instance/{machine.id}")):
        shown = as_(who, "GET", where).json
        assert shown.get("data", shown)["state"] == "migrating"
    row = as_("admin", "GET", f"/api/v1/migration/{asked.json['data']['migration_id']}").json["data"]
    assert (row["status"], row["kind"], row["source_hypervisor"], row["target_hypervisor"]) == (
        "active",
        "live",
        "node-1",
        "node-2",
    )
    work()
    row = as_("admin", "GET", f"/api/v1/migration/{row['id']}").json["data"]
    assert (row["status"], row["progress"], row["error"], row["bytes_done"] == row["bytes_total"]) == (
        "completed",
        100,
        None,
        True,
    )
    said = as_("admin", "GET", f"/api/v1/migration/{row['id']}/logs").json["data"]["logs"]
    assert "Moving the machine" in [line["message"] for line in said]
    assert [each["id"] for each in as_("admin", "GET", MIGRATIONS).json["data"]] == [row["id"]]
    assert as_("admin", "GET", f"{MIGRATIONS}?status=failed").json["data"] == []
    assert as_("admin", "GET", path).json["data"]["state"] == "running"
    assert as_("admin", "GET", f"/api/v1/migration/{UNKNOWN}").status_code == 404


@pytest.mark.parametrize("word", ["cluster-migrate", "proxmox-migrate"])
def test_programs_name_the_target_by_its_name(as_, second, path, work, word):
    body = {"target_node": "node-2", "online": True, "with_local_disks": True, "bwlimit": 100}
    assert as_("admin", "POST", f"{path}/{word}", json=body).status_code == 200
    work()
    checked = as_("admin", "GET", f"{path}/{word}/precheck", query_string={"target_node": "node-1"}).json["data"]
    assert (checked["ok"], checked["kind"]) == (True, "live")
    unknown = as_("admin", "POST", f"{path}/{word}", json={"target_node": "nowhere"})
    assert (unknown.status_code, unknown.json["errors"].keys()) == (422, {"target_node"})


def test_while_it_moves_nothing_else_is_done_with_it(as_, move, path, machine):
    move()
    for method, where in (
        ("POST", f"{path}/power/stop"),
        ("DELETE", path),
        ("POST", f"{path}/state/suspend"),
        ("POST", f"{path}/cluster-migrate"),
    ):
        body = {"json": {"target_node": "node-2"}} if "migrate" in where else {}
        answer = as_("admin", method, where, **body)
        assert (answer.status_code, answer.json["reason"]) == (409, "task_running"), where


def test_its_addresses_are_held_meanwhile(as_, move, machine, cast):
    held = {address.ip for address in machine.addresses}
    move()
    subnet = machine.addresses[0].subnet_id
    free = as_("admin", "GET", f"/api/v1/subnet/{subnet}/available-ips").json["data"]
    assert not held & {row["ip"] for row in free}


def test_room_on_the_target_is_taken_from_the_request_on(move, machine, second):
    before = hypervisors.usage([second.id])[second.id]
    move()
    after = hypervisors.usage([second.id])[second.id]
    assert (after["ram"] - before["ram"], after["cpu_cores"] - before["cpu_cores"]) == (machine.ram, 1)
    assert hypervisors.promised([second.storages[0].id]) == {second.storages[0].id: machine.storage}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"locked": True}, "locked"),
        ({"maintenance": True}, "maintenance"),
        ({"status": "down"}, "does not answer"),
        ({"status": "unknown"}, "not answered yet"),
        ({"deploy_enabled": False}, "takes no new machines"),
        ({"driver": "libvirt"}, "another way"),
        ({"accelerated": True}, "acceleration"),
    ],
)
def test_a_target_that_does_not_suit_is_refused_with_the_reason(as_, machine, second, path, change, sentence):
    for name, value in change.items():
        setattr(second, name, value)
    session.commit()
    answer = as_("admin", "POST", MIGRATIONS, json={"instance_id": machine.id, "hypervisor_id": second.id})
    assert (answer.status_code, answer.json["errors"].keys()) == (422, {"hypervisor_id"})
    assert sentence in answer.json["message"]
    checked = as_("admin", "GET", f"{path}/cluster-migrate/precheck?target_node=node-2").json["data"]
    assert (checked["ok"], checked["targets"][0]["ok"]) == (False, False)
    assert sentence in checked["targets"][0]["message"]
    assert again(machine).state == "running"


def test_a_target_without_room_is_refused(as_, machine, second, path):
    second.memory_mb = 100
    session.commit()
    answer = as_("admin", "POST", MIGRATIONS, json={"instance_id": machine.id, "hypervisor_id": second.id})
    assert (answer.status_code, answer.json["reason"]) == (422, "resources_not_sufficient")
    checked = as_("admin", "GET", f"{path}/cluster-migrate/precheck?target_node=node-2").json["data"]
    assert [check["name"] for check in checked["checks"] if not check["ok"]] == ["room"]


def test_what_cannot_move(as_, cast, machine, second):
    other = hypervisors.create_group(name="elsewhere")
    away = hypervisors.create(other, name="node-9", driver="simulated", uri="simulated://9", storage_path="/srv/c")
    never_made = cast.instance()
    session.commit()
    ask = lambda **body: as_("admin", "POST", MIGRATIONS, json={"instance_id": machine.id, **body})  # noqa: E731
    assert "another location" in ask(hypervisor_id=away.id).json["message"]
    assert "there already" in ask(hypervisor_id=machine.hypervisor_id).json["message"]
    assert (ask(online=False).status_code, ask(online=False).json["reason"]) == (409, "instance_running")
    refused = as_("admin", "POST", MIGRATIONS, json={"instance_id": never_made.id})
    assert (refused.status_code, refused.json["reason"]) == (409, "not_deployed")
    assert as_("admin", "POST", MIGRATIONS, json={"instance_id": UNKNOWN}).json["errors"].keys() == {"instance_id"}
    session.get(Hypervisor, cast.node.id).status = "down"
    session.commit()
    silent = ask(hypervisor_id=second.id)
    assert (silent.status_code, silent.json["reason"]) == (503, "hypervisor_unreachable")


def test_an_exclusive_task_is_waited_for(as_, machine, second):
    instances.destroy(machine, actor="owner@example.com")
    instances.actions.enqueue(machine, "deploy", "exclusive", actor="test")
    session.commit()
    answer = as_("admin", "POST", MIGRATIONS, json={"instance_id": machine.id, "hypervisor_id": second.id})
    assert (answer.status_code, answer.json["reason"]) == (409, "task_running")
    assert as_("admin", "GET", MIGRATIONS).json["data"] == []


def test_a_move_is_stopped_tried_again_and_rolled_back(as_, cast, machine, move, second, node, work):
    row = move()
    ask = lambda word, row=row: as_("admin", "POST", f"/api/v1/migration/{row.id}/{word}")  # noqa: E731
    assert ask("restart").status_code == 409
    assert ask("stop").status_code == 200
    work()
    assert (again(row).status, again(machine).state) == ("cancelled", "running")
    assert ask("stop").json["reason"] == "not_cancellable"
    assert ask("rollback").status_code == 409
    assert ask("restart").status_code == 200
    work()
    assert again(machine).hypervisor_id == second.id
    arrived = as_("admin", "GET", f"{MIGRATIONS}?status=completed").json["data"][0]["id"]
    assert as_("admin", "POST", f"/api/v1/migration/{arrived}/rollback").status_code == 200
    work()
    assert (again(machine).hypervisor_id, again(machine).state) == (cast.node.id, "running")
    assert node.power(machine.id) == "on"


@pytest.mark.parametrize("word", ["restart", "rollback"])
@pytest.mark.parametrize("by_page", [False, True])
def test_a_silent_node_refuses_another_move(as_, browse, machine, move, node, other, work, word, by_page):
    """ERR-10: before anybody has marked the node as down."""
    row = move()
    if word == "restart":
        as_("admin", "POST", f"/api/v1/migration/{row.id}/stop")
    work()
    (node if word == "restart" else other).fault("*", "silent")
    if by_page:
        answer = browse("admin").post(f"/admin/migrations/{row.id}/{word}")
    else:
        answer = as_("admin", "POST", f"/api/v1/migration/{row.id}/{word}")
        assert answer.json["reason"] == "hypervisor_unreachable"
    assert answer.status_code == 503
    assert len(as_("admin", "GET", MIGRATIONS).json["data"]) == 1


def test_a_hypervisor_is_emptied(as_, cast, machine, second):
    answer = as_("admin", "POST", f"/api/v1/hypervisor/{cast.node.id}/evacuate")
    assert (answer.status_code, answer.json["data"]["refused"]) == (200, {})
    assert session.get(Hypervisor, cast.node.id, populate_existing=True).maintenance
    assert session.get(Instance, machine.id, populate_existing=True).migrating
    again_asked = as_("admin", "POST", f"/api/v1/hypervisor/{cast.node.id}/evacuate")
    assert (again_asked.status_code, again_asked.json["reason"]) == (409, "task_running")


def test_the_list_costs_the_same_for_many(as_, move, machine, work, queries):
    move()
    work()
    queries.clear()
    as_("admin", "GET", MIGRATIONS)
    few = len(queries)
    for row in as_("admin", "GET", MIGRATIONS).json["data"]:
        as_("admin", "POST", f"/api/v1/migration/{row['id']}/rollback")
        work()
    queries.clear()
    assert len(as_("admin", "GET", MIGRATIONS).json["data"]) == 2
    assert len(queries) == few
