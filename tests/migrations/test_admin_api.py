"""Moving instances by the operators' API."""

import pytest

from panel.core.db import session
from panel.models import Hypervisor, Instance
from panel.services import hypervisors, instances
from tests.migrations.conftest import reload

MIGRATIONS = "/api/v1/migrations"
UNKNOWN_ID = "0199c0a8-0000-7000-8000-000000000000"


@pytest.fixture
def path(machine):
    return f"/api/v1/instance/{machine.id}"


def test_a_move_is_begun_followed_and_told(api_as, machine, second_hypervisor, path, run_tasks):
    """INS-11"""
    asked = api_as("admin", "POST", MIGRATIONS, json={"instance_id": machine.id, "hypervisor_id": second_hypervisor.id})
    assert (asked.status_code, asked.json["data"].keys()) == (200, {"task_id", "migration_id"})
    for who, where in (("admin", path), ("owner", f"/api/instance/{machine.id}")):
        shown = api_as(who, "GET", where).json
        assert shown.get("data", shown)["state"] == "migrating"
    row = api_as("admin", "GET", f"/api/v1/migration/{asked.json['data']['migration_id']}").json["data"]
    assert (row["status"], row["kind"], row["source_hypervisor"], row["target_hypervisor"]) == (
        "active",
        "live",
        "node-1",
        "node-2",
    )
    run_tasks()
    row = api_as("admin", "GET", f"/api/v1/migration/{row['id']}").json["data"]
    assert (row["status"], row["progress"], row["error"], row["bytes_done"] == row["bytes_total"]) == (
        "completed",
        100,
        None,
        True,
    )
    said = api_as("admin", "GET", f"/api/v1/migration/{row['id']}/logs").json["data"]["logs"]
    assert "Migrating the machine" in [line["message"] for line in said]
    assert [each["id"] for each in api_as("admin", "GET", MIGRATIONS).json["data"]] == [row["id"]]
    assert api_as("admin", "GET", f"{MIGRATIONS}?status=failed").json["data"] == []
    assert api_as("admin", "GET", path).json["data"]["state"] == "running"
    assert api_as("admin", "GET", f"/api/v1/migration/{UNKNOWN_ID}").status_code == 404


@pytest.mark.parametrize("word", ["cluster-migrate", "proxmox-migrate"])
def test_programs_name_the_target_by_its_name(api_as, second_hypervisor, path, run_tasks, word):
    body = {"target_node": "node-2", "online": True, "with_local_disks": True, "bwlimit": 100}
    assert api_as("admin", "POST", f"{path}/{word}", json=body).status_code == 200
    run_tasks()
    checked = api_as("admin", "GET", f"{path}/{word}/precheck", query_string={"target_node": "node-1"}).json["data"]
    assert (checked["ok"], checked["kind"]) == (True, "live")
    unknown = api_as("admin", "POST", f"{path}/{word}", json={"target_node": "nowhere"})
    assert (unknown.status_code, unknown.json["errors"].keys()) == (422, {"target_node"})


def test_while_it_moves_nothing_else_is_done_with_it(api_as, start_migration, path, machine):
    start_migration()
    for method, where in (
        ("POST", f"{path}/power/stop"),
        ("DELETE", path),
        ("POST", f"{path}/state/suspend"),
        ("POST", f"{path}/cluster-migrate"),
    ):
        body = {"json": {"target_node": "node-2"}} if "migrate" in where else {}
        answer = api_as("admin", method, where, **body)
        assert (answer.status_code, answer.json["reason"]) == (409, "task_running"), where


def test_its_addresses_are_held_meanwhile(api_as, start_migration, machine, cast):
    held = {address.ip for address in machine.addresses}
    start_migration()
    subnet = machine.addresses[0].subnet_id
    free = api_as("admin", "GET", f"/api/v1/subnet/{subnet}/available-ips").json["data"]
    assert not held & {row["ip"] for row in free}


def test_room_on_the_target_is_taken_from_the_request_on(start_migration, machine, second_hypervisor):
    before = hypervisors.get_allocations([second_hypervisor.id])[second_hypervisor.id]
    start_migration()
    after = hypervisors.get_allocations([second_hypervisor.id])[second_hypervisor.id]
    assert (after["ram"] - before["ram"], after["cpu_cores"] - before["cpu_cores"]) == (machine.ram, 1)
    assert hypervisors.get_storage_allocations([second_hypervisor.storages[0].id]) == {
        second_hypervisor.storages[0].id: machine.storage
    }


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"locked": True}, "locked"),
        ({"maintenance": True}, "maintenance"),
        ({"status": "down"}, "does not answer"),
        ({"status": "unknown"}, "not answered yet"),
        ({"deploy_enabled": False}, "placements are disabled"),
        ({"driver": "libvirt"}, "another driver"),
        ({"accelerated": True}, "acceleration"),
    ],
)
def test_a_target_that_does_not_suit_is_refused_with_the_reason(
    api_as, machine, second_hypervisor, path, change, sentence
):
    for name, value in change.items():
        setattr(second_hypervisor, name, value)
    session.commit()
    answer = api_as(
        "admin", "POST", MIGRATIONS, json={"instance_id": machine.id, "hypervisor_id": second_hypervisor.id}
    )
    assert (answer.status_code, answer.json["errors"].keys()) == (422, {"hypervisor_id"})
    assert sentence in answer.json["message"]
    checked = api_as("admin", "GET", f"{path}/cluster-migrate/precheck?target_node=node-2").json["data"]
    assert (checked["ok"], checked["targets"][0]["ok"]) == (False, False)
    assert sentence in checked["targets"][0]["message"]
    assert reload(machine).state == "running"


def test_a_target_without_room_is_refused(api_as, machine, second_hypervisor, path):
    second_hypervisor.memory_mb = 100
    session.commit()
    answer = api_as(
        "admin", "POST", MIGRATIONS, json={"instance_id": machine.id, "hypervisor_id": second_hypervisor.id}
    )
    assert (answer.status_code, answer.json["reason"]) == (422, "resources_not_sufficient")
    checked = api_as("admin", "GET", f"{path}/cluster-migrate/precheck?target_node=node-2").json["data"]
    assert [check["name"] for check in checked["checks"] if not check["ok"]] == ["room"]


def test_what_cannot_move(api_as, cast, machine, second_hypervisor):
    other = hypervisors.create_group(name="elsewhere")
    away = hypervisors.create(other, name="node-9", driver="simulated", uri="simulated://9", storage_path="/srv/c")
    never_made = cast.instance()
    session.commit()
    ask = lambda **body: api_as("admin", "POST", MIGRATIONS, json={"instance_id": machine.id, **body})  # noqa: E731
    assert "another location" in ask(hypervisor_id=away.id).json["message"]
    assert "already there" in ask(hypervisor_id=machine.hypervisor_id).json["message"]
    assert (ask(online=False).status_code, ask(online=False).json["reason"]) == (409, "instance_running")
    refused = api_as("admin", "POST", MIGRATIONS, json={"instance_id": never_made.id})
    assert (refused.status_code, refused.json["reason"]) == (409, "not_deployed")
    assert api_as("admin", "POST", MIGRATIONS, json={"instance_id": UNKNOWN_ID}).json["errors"].keys() == {
        "instance_id"
    }
    session.get(Hypervisor, cast.node.id).status = "down"
    session.commit()
    silent = ask(hypervisor_id=second_hypervisor.id)
    assert (silent.status_code, silent.json["reason"]) == (503, "hypervisor_unreachable")


def test_an_exclusive_task_is_waited_for(api_as, machine, second_hypervisor):
    instances.destroy(machine, actor="owner@example.com")
    instances.actions.enqueue(machine, "deploy", "exclusive", actor="test")
    session.commit()
    answer = api_as(
        "admin", "POST", MIGRATIONS, json={"instance_id": machine.id, "hypervisor_id": second_hypervisor.id}
    )
    assert (answer.status_code, answer.json["reason"]) == (409, "task_running")
    assert api_as("admin", "GET", MIGRATIONS).json["data"] == []


def test_a_move_is_stopped_tried_again_and_rolled_back(
    api_as, cast, machine, start_migration, second_hypervisor, node, run_tasks
):
    row = start_migration()
    ask = lambda word, row=row: api_as("admin", "POST", f"/api/v1/migration/{row.id}/{word}")  # noqa: E731
    assert ask("restart").status_code == 409
    assert ask("stop").status_code == 200
    run_tasks()
    assert (reload(row).status, reload(machine).state) == ("cancelled", "running")
    assert ask("stop").json["reason"] == "not_cancellable"
    assert ask("rollback").status_code == 409
    assert ask("restart").status_code == 200
    run_tasks()
    assert reload(machine).hypervisor_id == second_hypervisor.id
    arrived = api_as("admin", "GET", f"{MIGRATIONS}?status=completed").json["data"][0]["id"]
    assert api_as("admin", "POST", f"/api/v1/migration/{arrived}/rollback").status_code == 200
    run_tasks()
    assert (reload(machine).hypervisor_id, reload(machine).state) == (cast.node.id, "running")
    assert node.power(machine.id) == "on"


@pytest.mark.filterwarnings("error::sqlalchemy.exc.SAWarning")
def test_a_migration_to_a_removed_hypervisor_is_not_restarted(api_as, start_migration, run_tasks):
    row = start_migration()
    api_as("admin", "POST", f"/api/v1/migration/{row.id}/stop")
    run_tasks()
    reload(row).target_id = None  # as the foreign key sets it
    session.commit()
    answer = api_as("admin", "POST", f"/api/v1/migration/{row.id}/restart")
    assert (answer.status_code, answer.json["errors"].keys()) == (422, {"hypervisor_id"})


@pytest.mark.parametrize("word", ["restart", "rollback"])
@pytest.mark.parametrize("by_page", [False, True])
def test_a_silent_node_refuses_another_move(
    api_as, browser_as, machine, start_migration, node, second_node, run_tasks, word, by_page
):
    """ERR-10: before anybody has marked the node as down."""
    row = start_migration()
    if word == "restart":
        api_as("admin", "POST", f"/api/v1/migration/{row.id}/stop")
    run_tasks()
    (node if word == "restart" else second_node).fault("*", "silent")
    if by_page:
        answer = browser_as("admin").post(f"/admin/migrations/{row.id}/{word}")
    else:
        answer = api_as("admin", "POST", f"/api/v1/migration/{row.id}/{word}")
        assert answer.json["reason"] == "hypervisor_unreachable"
    assert answer.status_code == 503
    assert len(api_as("admin", "GET", MIGRATIONS).json["data"]) == 1


def test_a_hypervisor_is_emptied(api_as, cast, machine, second_hypervisor):
    answer = api_as("admin", "POST", f"/api/v1/hypervisor/{cast.node.id}/evacuate")
    assert (answer.status_code, answer.json["data"]["refused"]) == (200, {})
    assert session.get(Hypervisor, cast.node.id, populate_existing=True).maintenance
    assert session.get(Instance, machine.id, populate_existing=True).migrating
    again_asked = api_as("admin", "POST", f"/api/v1/hypervisor/{cast.node.id}/evacuate")
    assert (again_asked.status_code, again_asked.json["reason"]) == (409, "task_running")


def test_the_list_costs_the_same_for_many(api_as, start_migration, machine, run_tasks, queries):
    start_migration()
    run_tasks()
    queries.clear()
    api_as("admin", "GET", MIGRATIONS)
    few = len(queries)
    for row in api_as("admin", "GET", MIGRATIONS).json["data"]:
        api_as("admin", "POST", f"/api/v1/migration/{row['id']}/rollback")
        run_tasks()
    queries.clear()
    assert len(api_as("admin", "GET", MIGRATIONS).json["data"]) == 2
    assert len(queries) == few
