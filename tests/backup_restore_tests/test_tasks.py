"""Restore tests: results, faults, schedule."""

from datetime import timedelta
from functools import partial

import pytest

from panel.core import clock
from panel.core.db import session
from panel.core.errors import Conflict, Invalid
from panel.models import BackupRestoreTest, InstanceBackup, Task
from panel.services import backup_restore_tests, settings
from tests.support.worker_faults import requeue_to_new_worker
from worker.nodes.base import AgentUnavailable, Refused
from worker.nodes.simulated import SimulatedNode
from worker.tasks import backup_restore_tests as tasks
from worker.tasks.machine_spec import build_spec

CALLS = ("write_disk", "define", "start", "agent_ping")


@pytest.fixture
def request_test(run_tasks):
    """Return a function that requests a test of a backup, runs it and returns its row."""

    def request_test(backup, *, run=True):
        row = backup_restore_tests.start(backup, actor="test")
        session.commit()
        if run:
            run_tasks()
        return session.get(BackupRestoreTest, row.id, populate_existing=True)

    return request_test


@pytest.fixture
def start(backup, request_test):
    """Return a function that runs a test of the backup and returns its row."""
    return partial(request_test, backup)


def list_remains(node):
    """Return disks and machines of tests on the node."""
    disks = [row["name"] for row in node.state.rows("SELECT name FROM disks WHERE name LIKE 'test-%'")]
    return disks + [machine.name for machine in node.machines() if machine.name.startswith("test-")]


def test_backup_whose_guest_answers_passes(start, node, machine):
    row = start()
    assert (row.status, row.evidence, row.error) == ("passed", "agent", None)
    assert row.screenshot.startswith(b"\x89PNG")
    assert row.has_screenshot
    assert list_remains(node) == []
    assert node.power(machine.id) == "on"


def test_machine_has_no_network(start, node, monkeypatch):
    machines = []
    define = SimulatedNode.define
    monkeypatch.setattr(
        SimulatedNode, "define", lambda self, machine: machines.append(machine) or define(self, machine)
    )
    start()
    [machine] = machines
    assert (machine.nics, machine.media) == ((), {})


def test_machine_has_the_stored_firmware_and_tpm(request_test, back_up, node, machine, fault_at):
    node.power_off(machine.id)
    machine.tpm_enabled = machine.secure_boot_enabled = True
    session.commit()
    node.define(build_spec(machine))
    node.write_firmware_state(machine.id, {"nvram": b"variables", "tpm": b"keys"})
    node.start(machine.id)
    backup = session.get(InstanceBackup, back_up()["id"])
    states = []

    def read_state():
        [copy] = [row for row in node.machines() if row.name.startswith("test-")]
        states.append(node.read_firmware_state(copy.id))

    with fault_at("start", then=read_state):
        assert request_test(backup).status == "passed"
    assert states == [{"nvram": b"variables", "tpm": b"keys"}]


def test_silent_agent_fails(start, node, monkeypatch):
    def fail(self, machine_id):
        raise AgentUnavailable("The guest agent does not answer.")

    monkeypatch.setattr(SimulatedNode, "agent_ping", fail)
    row = start()
    assert (row.status, row.evidence, row.error) == ("failed", None, "The guest agent did not answer.")
    assert row.has_screenshot
    assert list_remains(node) == []


@pytest.mark.parametrize("changes", [True, False])
def test_guest_without_agent_is_judged_by_its_screen(start, backup, node, monkeypatch, changes):
    def fail(self, machine_id):
        raise AgentUnavailable("The guest agent does not answer.")

    pictures = iter(range(10**6))
    monkeypatch.setattr(SimulatedNode, "agent_ping", fail)
    if changes:
        monkeypatch.setattr(SimulatedNode, "screenshot", lambda self, machine_id: b"PNG%d" % next(pictures))
    backup.consistency = "crash"
    session.commit()
    row = start()
    expected = ("passed", "screen", None) if changes else ("failed", None, "The screen did not change.")
    assert (row.status, row.evidence, row.error) == expected
    assert list_remains(node) == []


def test_unreadable_backup_fails(start, node, folder):
    packs = [path for path in folder.rglob("*") if path.is_file() and "packs" in path.parts]
    assert packs
    for pack in packs:
        pack.write_bytes(bytes(pack.stat().st_size))
    row = start()
    assert (row.status, row.error) == ("failed", "The backup storage cannot be used now.")
    assert session.query(Task).filter_by(kind="backup_restore_test").one().status == "completed"
    assert list_remains(node) == []


@pytest.mark.parametrize("operation", ["write_disk", "define", "start"])
def test_failure_of_the_node_does_not_count(start, node, fault_at, operation):
    def refuse():
        raise Refused("The node refuses.")

    with fault_at(operation, refuse):
        row = start()
    assert (row.status, row.error) == ("aborted", "The node refuses.")
    assert list_remains(node) == []
    assert backup_restore_tests.list_failed() == []


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("operation", [*CALLS, "delete", "delete_disk"])
def test_worker_killed_during_test(start, node, kill_worker_at, operation, after):
    """The next attempt completes the test."""
    row = start(run=False)
    task = session.query(Task).filter_by(kind="backup_restore_test").one()
    kill_worker_at(task, operation, after=after)
    assert requeue_to_new_worker(task).status == "completed"
    assert session.get(BackupRestoreTest, row.id, populate_existing=True).status == "passed"
    assert list_remains(node) == []


def test_one_test_at_a_time_on_a_hypervisor(start, backup):
    start(run=False)
    with pytest.raises(Conflict, match="is being tested"):
        backup_restore_tests.start(backup, actor="test")


@pytest.mark.parametrize("change", ["memory", "storage"])
def test_hypervisor_without_room_is_left_alone(backup, machine, change):
    if change == "memory":
        machine.hypervisor.memory_mb = machine.ram + 1
    else:
        machine.disks[0].storage.free = 1
    session.commit()
    with pytest.raises(Invalid, match="too little room"):
        backup_restore_tests.start(backup, actor="test")


def count_tests():
    return session.query(BackupRestoreTest).count()


def test_no_test_is_scheduled_by_default(backup):
    tasks.start_due()
    assert count_tests() == 0


def test_newest_backup_is_tested_once_a_day(backup, back_up, tests_enabled, run_tasks):
    newest = back_up()
    tasks.start_due()
    run_tasks()
    tasks.start_due()
    run_tasks()
    [row] = session.query(BackupRestoreTest).all()
    assert (row.backup_id, row.status) == (newest["id"], "passed")
    row.created_at -= timedelta(days=1, seconds=1)
    session.commit()
    tasks.start_due()
    assert count_tests() == 2


@pytest.mark.parametrize("field", ["damaged", "delete_claimed_at", "missing_confirmed_at", "status"])
def test_unusable_backup_is_not_tested(backup, tests_enabled, field):
    value = {"damaged": True, "status": "failed"}.get(field, clock.now())
    setattr(backup, field, value)
    session.commit()
    tasks.start_due()
    assert count_tests() == 0


def test_number_of_tests_is_limited(backup, back_up, tests_enabled, run_tasks):
    settings.update({"backup_restore_tests_per_day": 1})
    session.commit()
    tasks.start_due()
    run_tasks()
    other = session.query(BackupRestoreTest).one()
    other.instance_id = "0199c0a8-0000-7000-8000-00000000000a"
    session.commit()
    tasks.start_due()
    assert count_tests() == 1


def test_old_results_are_deleted(start):
    row = start()
    row.created_at -= timedelta(days=181)
    session.commit()
    tasks.start_due()
    assert count_tests() == 0


def test_failed_test_needs_attention_until_one_passes(start, backup):
    row = start()
    row.status = "failed"
    session.commit()
    assert backup_restore_tests.list_failed() == [row]
    start()
    assert backup_restore_tests.list_failed() == []
    assert session.query(InstanceBackup).count() == 1


def test_operator_starts_test_over_api(api_as, backup, machine, run_tasks):
    path = f"/api/v1/instance/{machine.id}/backup/{backup.id}/restore-test"
    assert api_as("admin", "GET", path).status_code == 404
    answer = api_as("admin", "POST", path)
    assert (answer.status_code, answer.json["data"]["status"]) == (200, "running")
    answer = api_as("admin", "POST", path)
    assert (answer.status_code, answer.json["reason"]) == (409, "hypervisor_backup_busy")
    run_tasks()
    data = api_as("admin", "GET", path).json["data"]
    assert (data["status"], data["evidence"], data["has_screenshot"]) == ("passed", "agent", True)
