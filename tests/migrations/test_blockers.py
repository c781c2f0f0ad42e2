"""What holds the disks of a machine: nothing replaces, copies or moves them before it is ended."""

import pytest

from panel.core import clock
from panel.core.db import session
from panel.models import Forge, Rescue, Snapshot
from tests.migrations.conftest import again


def session_over(machine):
    disk = machine.disks[0]
    return Forge(instance_id=machine.id, status="active", disks=[{"id": disk.id, "name": disk.name, "size": disk.size}])


def snapshot_of(machine):
    made = {"cpu_cores": machine.cpu_cores, "ram": machine.ram, "disk_ids": [machine.disks[0].id]}
    return Snapshot(instance_id=machine.id, name="before", status="available", **made)


def rescue_of(machine):
    return Rescue(instance_id=machine.id, since=clock.now(), password="secret")


HOLDS = [(session_over, "already_active"), (snapshot_of, "has_snapshots"), (rescue_of, "rescue_active")]


@pytest.fixture
def moves(as_, machine, second):
    def asked():
        body = {"instance_id": machine.id, "hypervisor_id": second.id}
        return as_("admin", "POST", "/api/v1/migrations", json=body)

    return asked


@pytest.mark.parametrize(("hold", "reason"), HOLDS)
def test_disks_that_are_held_are_neither_moved_nor_replaced(as_, machine, moves, hold, reason):
    session.add(hold(machine))
    session.commit()
    answers = [
        moves(),
        as_("owner", "POST", f"/api/instance/{machine.id}/reinstall", json={}),
        as_("admin", "POST", f"/api/v1/instance/{machine.id}/reinstall", json={}),
    ]
    assert {(answer.status_code, answer.json["reason"]) for answer in answers} == {(409, reason)}
    assert again(machine).state == "running"


def test_what_would_be_left_behind_keeps_a_machine_where_it_is(machine, moves):
    machine.started_cpu_cores, machine.started_ram = machine.cpu_cores, machine.ram
    session.commit()
    assert (moves().status_code, moves().json["reason"]) == (409, "change_pending")
    machine.disks[0].attached = False
    session.commit()
    assert moves().json["reason"] == "has_volumes"


def test_the_look_before_a_move_says_what_has_to_be_ended(as_, machine, second):
    session.add(snapshot_of(machine))
    session.commit()
    path = f"/api/v1/instance/{machine.id}/cluster-migrate/precheck?target_node=node-2"
    checks = {check["name"]: check for check in as_("admin", "GET", path).json["data"]["checks"]}
    assert not checks["disks"]["ok"]
    assert "snapshot" in checks["disks"]["message"]
