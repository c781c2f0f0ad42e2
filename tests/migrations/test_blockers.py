"""Live sessions, snapshots and rescue mode block migrations and reinstalls until they end."""

import pytest

from panel.core import clock
from panel.core.db import session
from panel.models import Forge, Rescue, Snapshot
from tests.migrations.node_sync import reload


def build_live_session(running_instance):
    disk = running_instance.disks[0]
    return Forge(
        instance_id=running_instance.id, status="active", disks=[{"id": disk.id, "name": disk.name, "size": disk.size}]
    )


def build_snapshot(running_instance):
    values = {
        "cpu_cores": running_instance.cpu_cores,
        "ram": running_instance.ram,
        "disk_ids": [running_instance.disks[0].id],
    }
    return Snapshot(instance_id=running_instance.id, name="before", status="available", **values)


def build_rescue(running_instance):
    return Rescue(instance_id=running_instance.id, since=clock.now(), password="secret")


BLOCKERS = [(build_live_session, "already_active"), (build_snapshot, "has_snapshots"), (build_rescue, "rescue_active")]


@pytest.fixture
def request_migration(api_as, running_instance, second_hypervisor):
    def request():
        body = {"instance_id": running_instance.id, "hypervisor_id": second_hypervisor.id}
        return api_as("admin", "POST", "/api/v1/migrations", json=body)

    return request


@pytest.mark.parametrize(("build_blocker", "reason"), BLOCKERS)
def test_blocked_disks_are_neither_migrated_nor_reinstalled(
    api_as, running_instance, request_migration, build_blocker, reason
):
    session.add(build_blocker(running_instance))
    session.commit()
    answers = [
        request_migration(),
        api_as("owner", "POST", f"/api/instance/{running_instance.id}/reinstall", json={}),
        api_as("admin", "POST", f"/api/v1/instance/{running_instance.id}/reinstall", json={}),
    ]
    assert {(answer.status_code, answer.json["reason"]) for answer in answers} == {(409, reason)}
    assert reload(running_instance).state == "running"


def test_pending_plan_change_and_volumes_block_migration(running_instance, request_migration):
    running_instance.started_cpu_cores, running_instance.started_ram = running_instance.cpu_cores, running_instance.ram
    session.commit()
    assert (request_migration().status_code, request_migration().json["reason"]) == (409, "change_pending")
    running_instance.disks[0].attached = False
    session.commit()
    assert request_migration().json["reason"] == "has_volumes"


def test_migration_precheck_names_blocking_snapshot(api_as, running_instance, second_hypervisor):
    session.add(build_snapshot(running_instance))
    session.commit()
    path = f"/api/v1/instance/{running_instance.id}/cluster-migrate/precheck?target_node=node-2"
    checks = {check["name"]: check for check in api_as("admin", "GET", path).json["data"]["checks"]}
    assert not checks["disks"]["ok"]
    assert "snapshot" in checks["disks"]["message"]
