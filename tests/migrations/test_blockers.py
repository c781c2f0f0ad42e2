"""What holds the disks of a machine: nothing replaces, copies or moves them before it is ended."""

import pytest

from panel.core import clock
from panel.core.db import session
from panel.models import Forge, Rescue, Snapshot
from tests.migrations.conftest import reload


def start_live_session(machine):
    disk = machine.disks[0]
    return Forge(instance_id=machine.id, status="active", disks=[{"id": disk.id, "name": disk.name, "size": disk.size}])


def take_snapshot(machine):
    made = {"cpu_cores": machine.cpu_cores, "ram": machine.ram, "disk_ids": [machine.disks[0].id]}
    return Snapshot(instance_id=machine.id, name="before", status="available", **made)


def start_rescue(machine):
    return Rescue(instance_id=machine.id, since=clock.now(), password="secret")


BLOCKERS = [(start_live_session, "already_active"), (take_snapshot, "has_snapshots"), (start_rescue, "rescue_active")]


@pytest.fixture
def request_migrations(api_as, machine, second_hypervisor):
    def asked():
        body = {"instance_id": machine.id, "hypervisor_id": second_hypervisor.id}
        return api_as("admin", "POST", "/api/v1/migrations", json=body)

    return asked


@pytest.mark.parametrize(("hold", "reason"), BLOCKERS)
def test_disks_that_are_held_are_neither_moved_nor_replaced(api_as, machine, request_migrations, hold, reason):
    session.add(hold(machine))
    session.commit()
    answers = [
        request_migrations(),
        api_as("owner", "POST", f"/api/instance/{machine.id}/reinstall", json={}),
        api_as("admin", "POST", f"/api/v1/instance/{machine.id}/reinstall", json={}),
    ]
    assert {(answer.status_code, answer.json["reason"]) for answer in answers} == {(409, reason)}
    assert reload(machine).state == "running"


def test_what_would_be_left_behind_keeps_a_machine_where_it_is(machine, request_migrations):
    machine.started_cpu_cores, machine.started_ram = machine.cpu_cores, machine.ram
    session.commit()
    assert (request_migrations().status_code, request_migrations().json["reason"]) == (409, "change_pending")
    machine.disks[0].attached = False
    session.commit()
    assert request_migrations().json["reason"] == "has_volumes"


def test_the_look_before_a_move_says_what_has_to_be_ended(api_as, machine, second_hypervisor):
    session.add(take_snapshot(machine))
    session.commit()
    path = f"/api/v1/instance/{machine.id}/cluster-migrate/precheck?target_node=node-2"
    checks = {check["name"]: check for check in api_as("admin", "GET", path).json["data"]["checks"]}
    assert not checks["disks"]["ok"]
    assert "snapshot" in checks["disks"]["message"]
