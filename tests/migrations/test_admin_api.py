"""Migrations by the admin API."""

import pytest

from panel.core.db import session
from panel.models import Hypervisor, Instance
from panel.services import hypervisors, instances
from tests.migrations.node_sync import reload
from tests.support.cast import UNKNOWN_ID

MIGRATIONS_PATH = "/api/v1/migrations"


@pytest.fixture
def instance_path(running_instance):
    return f"/api/v1/instance/{running_instance.id}"


def test_migration_is_requested_and_followed_to_its_end(
    api_as, running_instance, second_hypervisor, instance_path, run_tasks
):
    """INS-11"""
    answer = api_as(
        "admin",
        "POST",
        MIGRATIONS_PATH,
        json={"instance_id": running_instance.id, "hypervisor_id": second_hypervisor.id},
    )
    assert (answer.status_code, answer.json["data"].keys()) == (200, {"task_id", "migration_id"})
    for account, path in (("admin", instance_path), ("owner", f"/api/instance/{running_instance.id}")):
        body = api_as(account, "GET", path).json
        assert body.get("data", body)["state"] == "migrating"
    row = api_as("admin", "GET", f"/api/v1/migration/{answer.json['data']['migration_id']}").json["data"]
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
    log_lines = api_as("admin", "GET", f"/api/v1/migration/{row['id']}/logs").json["data"]["logs"]
    assert "Migrating the machine" in [line["message"] for line in log_lines]
    assert [migration["id"] for migration in api_as("admin", "GET", MIGRATIONS_PATH).json["data"]] == [row["id"]]
    assert api_as("admin", "GET", f"{MIGRATIONS_PATH}?status=failed").json["data"] == []
    assert api_as("admin", "GET", instance_path).json["data"]["state"] == "running"
    assert api_as("admin", "GET", f"/api/v1/migration/{UNKNOWN_ID}").status_code == 404


@pytest.mark.parametrize("operation", ["cluster-migrate", "proxmox-migrate"])
def test_cluster_migrate_takes_name_of_target(api_as, second_hypervisor, instance_path, run_tasks, operation):
    body = {"target_node": "node-2", "online": True, "with_local_disks": True, "bwlimit": 100}
    assert api_as("admin", "POST", f"{instance_path}/{operation}", json=body).status_code == 200
    run_tasks()
    precheck = api_as(
        "admin", "GET", f"{instance_path}/{operation}/precheck", query_string={"target_node": "node-1"}
    ).json["data"]
    assert (precheck["ok"], precheck["kind"]) == (True, "live")
    unknown = api_as("admin", "POST", f"{instance_path}/{operation}", json={"target_node": "nowhere"})
    assert (unknown.status_code, unknown.json["errors"].keys()) == (422, {"target_node"})


def test_migrating_instance_refuses_other_tasks(api_as, start_migration, instance_path, running_instance):
    start_migration()
    for method, path in (
        ("POST", f"{instance_path}/power/stop"),
        ("DELETE", instance_path),
        ("POST", f"{instance_path}/state/suspend"),
        ("POST", f"{instance_path}/cluster-migrate"),
    ):
        body = {"json": {"target_node": "node-2"}} if "migrate" in path else {}
        answer = api_as("admin", method, path, **body)
        assert (answer.status_code, answer.json["reason"]) == (409, "task_running"), path


def test_addresses_of_migrating_instance_are_not_listed_as_available(api_as, start_migration, running_instance, cast):
    instance_addresses = {address.ip for address in running_instance.addresses}
    start_migration()
    subnet = running_instance.addresses[0].subnet_id
    available = api_as("admin", "GET", f"/api/v1/subnet/{subnet}/available-ips").json["data"]
    assert not instance_addresses & {row["ip"] for row in available}


def test_migration_request_reserves_capacity_on_target(start_migration, running_instance, second_hypervisor):
    before = second_hypervisor.allocation
    start_migration()
    session.expire(second_hypervisor)
    after = second_hypervisor.allocation
    assert (after.ram - before.ram, after.cpu_cores - before.cpu_cores) == (running_instance.ram, 1)
    assert second_hypervisor.storages[0].allocated == running_instance.storage


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
def test_unsuitable_target_is_refused_with_reason(
    api_as, running_instance, second_hypervisor, instance_path, change, sentence
):
    for name, value in change.items():
        setattr(second_hypervisor, name, value)
    session.commit()
    answer = api_as(
        "admin",
        "POST",
        MIGRATIONS_PATH,
        json={"instance_id": running_instance.id, "hypervisor_id": second_hypervisor.id},
    )
    assert (answer.status_code, answer.json["errors"].keys()) == (422, {"hypervisor_id"})
    assert sentence in answer.json["message"]
    precheck = api_as("admin", "GET", f"{instance_path}/cluster-migrate/precheck?target_node=node-2").json["data"]
    assert (precheck["ok"], precheck["targets"][0]["ok"]) == (False, False)
    assert sentence in precheck["targets"][0]["message"]
    assert reload(running_instance).state == "running"


def test_target_without_capacity_is_refused(api_as, running_instance, second_hypervisor, instance_path):
    second_hypervisor.memory_mb = 100
    session.commit()
    answer = api_as(
        "admin",
        "POST",
        MIGRATIONS_PATH,
        json={"instance_id": running_instance.id, "hypervisor_id": second_hypervisor.id},
    )
    assert (answer.status_code, answer.json["reason"]) == (422, "resources_not_sufficient")
    precheck = api_as("admin", "GET", f"{instance_path}/cluster-migrate/precheck?target_node=node-2").json["data"]
    assert [check["name"] for check in precheck["checks"] if not check["ok"]] == ["room"]


def test_impossible_migrations_are_refused(api_as, cast, running_instance, second_hypervisor):
    other_group = hypervisors.create_group(name="elsewhere")
    distant_hypervisor = hypervisors.create(
        other_group, name="node-9", driver="simulated", uri="simulated://9", storage_path="/srv/c"
    )
    undeployed_instance = cast.instance()
    session.commit()

    def request_migration(**body):
        return api_as("admin", "POST", MIGRATIONS_PATH, json={"instance_id": running_instance.id, **body})

    assert "another location" in request_migration(hypervisor_id=distant_hypervisor.id).json["message"]
    assert "already there" in request_migration(hypervisor_id=running_instance.hypervisor_id).json["message"]
    assert (request_migration(online=False).status_code, request_migration(online=False).json["reason"]) == (
        409,
        "instance_running",
    )
    refused = api_as("admin", "POST", MIGRATIONS_PATH, json={"instance_id": undeployed_instance.id})
    assert (refused.status_code, refused.json["reason"]) == (409, "not_deployed")
    assert api_as("admin", "POST", MIGRATIONS_PATH, json={"instance_id": UNKNOWN_ID}).json["errors"].keys() == {
        "instance_id"
    }
    session.get(Hypervisor, cast.node.id).status = "down"
    session.commit()
    unreachable = request_migration(hypervisor_id=second_hypervisor.id)
    assert (unreachable.status_code, unreachable.json["reason"]) == (503, "hypervisor_unreachable")


def test_migration_is_refused_during_exclusive_task(api_as, running_instance, second_hypervisor):
    instances.destroy(running_instance, actor="owner@example.com")
    instances.actions.enqueue(running_instance, "deploy", "exclusive", actor="test")
    session.commit()
    answer = api_as(
        "admin",
        "POST",
        MIGRATIONS_PATH,
        json={"instance_id": running_instance.id, "hypervisor_id": second_hypervisor.id},
    )
    assert (answer.status_code, answer.json["reason"]) == (409, "task_running")
    assert api_as("admin", "GET", MIGRATIONS_PATH).json["data"] == []


def test_migration_is_stopped_restarted_and_rolled_back(
    api_as, cast, running_instance, start_migration, second_hypervisor, node, run_tasks
):
    row = start_migration()
    post_operation = lambda operation, row=row: api_as("admin", "POST", f"/api/v1/migration/{row.id}/{operation}")  # noqa: E731
    assert post_operation("restart").status_code == 409
    assert post_operation("stop").status_code == 200
    run_tasks()
    assert (reload(row).status, reload(running_instance).state) == ("cancelled", "running")
    assert post_operation("stop").json["reason"] == "not_cancellable"
    assert post_operation("rollback").status_code == 409
    assert post_operation("restart").status_code == 200
    run_tasks()
    assert reload(running_instance).hypervisor_id == second_hypervisor.id
    migration_id = api_as("admin", "GET", f"{MIGRATIONS_PATH}?status=completed").json["data"][0]["id"]
    assert api_as("admin", "POST", f"/api/v1/migration/{migration_id}/rollback").status_code == 200
    run_tasks()
    assert (reload(running_instance).hypervisor_id, reload(running_instance).state) == (cast.node.id, "running")
    assert node.power(running_instance.id) == "on"


@pytest.mark.filterwarnings("error::sqlalchemy.exc.SAWarning")
def test_migration_to_removed_hypervisor_is_not_restarted(api_as, start_migration, run_tasks):
    row = start_migration()
    api_as("admin", "POST", f"/api/v1/migration/{row.id}/stop")
    run_tasks()
    reload(row).target_id = None  # as the foreign key sets it
    session.commit()
    answer = api_as("admin", "POST", f"/api/v1/migration/{row.id}/restart")
    assert (answer.status_code, answer.json["errors"].keys()) == (422, {"hypervisor_id"})


@pytest.mark.parametrize("operation", ["restart", "rollback"])
@pytest.mark.parametrize("by_page", [False, True])
def test_restart_and_rollback_are_refused_while_node_is_silent(
    api_as, browser_as, running_instance, start_migration, node, second_node, run_tasks, operation, by_page
):
    """ERR-10: also before the node is marked as down."""
    row = start_migration()
    if operation == "restart":
        api_as("admin", "POST", f"/api/v1/migration/{row.id}/stop")
    run_tasks()
    (node if operation == "restart" else second_node).fault("*", "silent")
    if by_page:
        answer = browser_as("admin").post(f"/admin/migrations/{row.id}/{operation}")
    else:
        answer = api_as("admin", "POST", f"/api/v1/migration/{row.id}/{operation}")
        assert answer.json["reason"] == "hypervisor_unreachable"
    assert answer.status_code == 503
    assert len(api_as("admin", "GET", MIGRATIONS_PATH).json["data"]) == 1


def test_hypervisor_is_evacuated(api_as, cast, running_instance, second_hypervisor):
    answer = api_as("admin", "POST", f"/api/v1/hypervisor/{cast.node.id}/evacuate")
    assert (answer.status_code, answer.json["data"]["refused"]) == (200, {})
    assert session.get(Hypervisor, cast.node.id, populate_existing=True).maintenance
    assert session.get(Instance, running_instance.id, populate_existing=True).migrating
    second_answer = api_as("admin", "POST", f"/api/v1/hypervisor/{cast.node.id}/evacuate")
    assert (second_answer.status_code, second_answer.json["reason"]) == (409, "task_running")


def test_migration_list_query_count_is_constant(api_as, start_migration, running_instance, run_tasks, queries):
    start_migration()
    run_tasks()
    queries.clear()
    api_as("admin", "GET", MIGRATIONS_PATH)
    query_count = len(queries)
    for row in api_as("admin", "GET", MIGRATIONS_PATH).json["data"]:
        api_as("admin", "POST", f"/api/v1/migration/{row['id']}/rollback")
        run_tasks()
    queries.clear()
    assert len(api_as("admin", "GET", MIGRATIONS_PATH).json["data"]) == 2
    assert len(queries) == query_count
