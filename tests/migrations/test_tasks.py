"""What workers do when a machine moves: whatever happens, one node has it and the row says which."""

import pytest

from panel.core.db import session
from panel.models import Hypervisor, Task
from panel.services import migrations, tasks
from tests.migrations.conftest import reload, sync_nodes
from worker.engine import runner
from worker.nodes.base import Disk, GiB, Power
from worker.nodes.simulated import SimulatedNode
from worker.tasks import migrations as moving


@pytest.fixture(autouse=True)
def short_retries(monkeypatch):
    monkeypatch.setattr(moving, "MIGRATION_RETRY_INTERVAL_SECONDS", 0)


def disks(node):
    return {disk.name for disk in node.disks("default") if disk.name.startswith("h")}


def ids(node):
    return {machine.id for machine in node.machines()}


def test_a_machine_moves_while_it_runs(machine, start_migration, node, second_node, second_hypervisor, run_tasks):
    """INS-11: `migrating` from the request on."""
    boots = lambda each: each.state.rows("SELECT boots FROM machines")[0][0]  # noqa: E731
    before, addresses = boots(node), [address.ip for address in machine.addresses]
    row = start_migration()
    assert (reload(machine).state, row.kind) == ("migrating", "live")
    run_tasks()
    found = reload(machine)
    assert (found.state, found.hypervisor_id, found.disks[0].storage.hypervisor_id) == (
        "running",
        second_hypervisor.id,
        second_hypervisor.id,
    )
    assert (ids(node), ids(second_node), boots(second_node)) == (set(), {machine.id}, before)
    assert (disks(node), len(disks(second_node))) == (set(), 2)
    assert (reload(row).status, reload(row).undeleted_source_disks, reload(row).cleanup_pending) == (
        "completed",
        [],
        False,
    )
    assert [address.ip for address in found.addresses] == addresses


def test_a_machine_that_is_off_moves_and_stays_off(
    machine, start_migration, node, second_node, second_hypervisor, run_tasks
):
    node.power_off(machine.id)
    sync_nodes(machine.hypervisor)
    row = start_migration()
    assert row.kind == "cold"
    run_tasks()
    assert (reload(machine).state, second_node.power(machine.id)) == ("stopped", Power.off)
    assert reload(machine).hypervisor_id == second_hypervisor.id


def test_looks_at_the_nodes_say_nothing_of_a_machine_that_moves(
    machine, start_migration, node, second_node, second_hypervisor, run_tasks
):
    start_migration()
    second_node.prepare_pool("default", "/srv/b")
    node.delete(machine.id)
    sync_nodes(machine.hypervisor, second_hypervisor)
    assert (reload(machine).missing_on_node, reload(machine).state) == (False, "migrating")


def test_a_target_that_is_full_leaves_everything_as_it_was(machine, start_migration, node, second_node, run_tasks):
    second_node.fault("create_disk", "full")
    row = start_migration()
    run_tasks()
    found = reload(machine)
    assert (found.state, found.migrating, found.hypervisor_id) == ("running", False, machine.hypervisor_id)
    assert (reload(row).status, ids(node), ids(second_node), disks(second_node)) == (
        "failed",
        {machine.id},
        set(),
        set(),
    )
    assert "enough space" in reload(row).error
    assert len(disks(node)) == 2


@pytest.mark.parametrize("operation", ["has_image", "create_disk", "ping", "clean_up_target"])
def test_a_target_that_goes_silent_before_it_leaves_the_machine_at_home(
    machine, start_migration, node, second_node, run_tasks, operation
):
    second_node.fault(operation, "silent", count=1)
    if operation == "clean_up_target":
        second_node.fault("create_disk", "refuse", count=1)
    row = start_migration()
    run_tasks()
    assert (reload(machine).state, ids(node), reload(row).status) == ("running", {machine.id}, "failed")
    second_node.clear()
    for left in session.query(Task).filter(Task.rollback_pending):
        runner.run(left.id, "sweeper")
    assert disks(second_node) == set()


def test_a_move_that_is_refused_is_rolled_back(machine, start_migration, node, second_node, run_tasks):
    node.fault("migrate", "refuse")
    row = start_migration()
    run_tasks()
    assert (reload(machine).state, node.power(machine.id), reload(row).status) == ("running", Power.on, "failed")
    assert (ids(second_node), disks(second_node)) == (set(), set())


def test_an_answer_that_was_lost_is_found_out(
    machine, start_migration, node, second_node, second_hypervisor, run_tasks
):
    node.fault("migrate", "lost-answer", count=1)
    row = start_migration()
    run_tasks()
    assert (reload(row).status, reload(machine).hypervisor_id, reload(machine).state) == (
        "completed",
        second_hypervisor.id,
        "running",
    )
    assert (ids(node), ids(second_node)) == (set(), {machine.id})


def test_silence_is_waited_out(machine, start_migration, node, second_node, second_hypervisor, run_tasks, monkeypatch):
    """The move is done, its answer lost, and then nobody answers for a while."""
    node.fault("migrate", "lost-answer", count=1)
    node.fault("power", "silent", count=2)
    second_node.fault("power", "silent", count=2)
    row = start_migration()
    run_tasks()
    assert (reload(row).status, reload(machine).hypervisor_id) == ("completed", second_hypervisor.id)


def test_a_source_that_dies_after_the_move_is_cleaned_later(
    machine, start_migration, node, second_node, second_hypervisor, run_tasks, api_as
):
    node.fault("delete_disk", "silent")
    row = start_migration()
    run_tasks()
    assert (reload(row).status, reload(machine).hypervisor_id, reload(row).cleanup_pending) == (
        "completed",
        second_hypervisor.id,
        True,
    )
    assert len(disks(node)) == 2
    node.clear()
    node.ping()
    assert api_as("admin", "POST", f"/api/v1/migration/{row.id}/complete").status_code == 200
    run_tasks()
    assert (disks(node), reload(row).cleanup_pending) == (set(), False)
    assert api_as("admin", "POST", f"/api/v1/migration/{row.id}/complete").status_code == 409


def test_it_is_stopped_on_request(machine, start_migration, node, second_node, run_tasks, monkeypatch):
    row = start_migration()
    real = SimulatedNode._report_progress

    def stopped(self, definition, progress):
        tasks.cancel(session.get(Task, row.task_id))
        session.commit()
        real(self, definition, progress)

    monkeypatch.setattr(SimulatedNode, "_report_progress", stopped)
    run_tasks()
    assert (reload(row).status, reload(machine).state, ids(second_node)) == ("cancelled", "running", set())
    assert disks(second_node) == set()


def test_once_it_has_arrived_it_is_too_late_to_stop_it(
    machine, start_migration, node, second_node, second_hypervisor, run_tasks, monkeypatch
):
    """Otherwise the row would say that it is where it is not."""
    row = start_migration()
    real = SimulatedNode.migrate

    def moved(self, *args):
        real(self, *args)
        tasks.cancel(session.get(Task, row.task_id))
        session.commit()

    monkeypatch.setattr(SimulatedNode, "migrate", moved)
    run_tasks()
    assert (reload(row).status, reload(machine).hypervisor_id, ids(second_node)) == (
        "completed",
        second_hypervisor.id,
        {machine.id},
    )


class WorkerKilled(BaseException):
    """As SIGKILL."""


KILL_POINTS = [
    ("create_disk", "before"),
    ("create_disk", "after"),
    ("copy_media", "after"),
    ("migrate", "before"),
    ("_receive", "after"),
    ("_take_over", "before"),
    ("migrate", "after"),
    ("delete_disk", "after"),
]


@pytest.mark.parametrize(("step", "when"), KILL_POINTS)
@pytest.mark.parametrize("on", [True, False])
def test_the_next_worker_completes_a_lost_worker_s_migration(
    machine, start_migration, node, second_node, second_hypervisor, run_tasks, monkeypatch, step, when, on
):
    if not on:
        node.power_off(machine.id)
        sync_nodes(machine.hypervisor)
    row = start_migration()
    real = getattr(SimulatedNode, step)

    def die(self, *args, **options):
        if when == "after":
            real(self, *args, **options)
        raise WorkerKilled

    with monkeypatch.context() as patched:
        patched.setattr(SimulatedNode, step, die)
        with pytest.raises(WorkerKilled):
            runner.run(row.task_id, "worker that dies")
    session.rollback()
    asked = session.get(Task, row.task_id, populate_existing=True)
    asked.status, asked.worker = "queued", None
    session.commit()
    assert ids(node) | ids(second_node) == {machine.id}
    runner.run(row.task_id, "worker that lives")
    found = reload(machine)
    assert (found.state, found.hypervisor_id) == ("running" if on else "stopped", second_hypervisor.id)
    assert (ids(node), ids(second_node), reload(row).status) == (set(), {machine.id}, "completed")
    assert second_node.power(machine.id) is (Power.on if on else Power.off)
    assert (disks(node), len(disks(second_node))) == (set(), 2)


def test_an_evacuation_empties_a_hypervisor(machine, cast, node, second_node, second_hypervisor, run_tasks):
    never_made = cast.instance()
    never_made.hypervisor_id = cast.node.id
    session.commit()
    parent = migrations.evacuate(reload(machine.hypervisor), actor="admin")
    session.commit()
    for row in session.scalars(migrations.listing(parent_task_id=parent.id)).all():
        runner.run(row.task_id, "a worker")
    run_tasks()
    assert (reload(machine).hypervisor_id, reload(never_made).hypervisor_id) == (
        second_hypervisor.id,
        second_hypervisor.id,
    )
    assert reload(never_made).disks[0].storage.hypervisor_id == second_hypervisor.id
    assert (reload(parent).status, session.get(Hypervisor, cast.node.id).maintenance) == ("completed", True)
    assert ids(node) == set()


def test_an_evacuation_tells_what_could_not_move(machine, second_hypervisor, run_tasks):
    reload(second_hypervisor).locked = True
    session.commit()
    parent = migrations.evacuate(reload(machine.hypervisor), actor="admin")
    session.commit()
    assert parent.arguments["refused"].keys() == {machine.name}
    run_tasks()
    assert (reload(parent).status, reload(machine).state) == ("failed", "running")


def test_an_adopted_disk_replaces_nobody_s_of_its_name(machine, start_migration, node, second_node, run_tasks):
    """The disks of adopted machines are called as somebody else called them."""
    node.create_disk(Disk("default", "web.qcow2", GiB))
    machine.disks[0].name = "web.qcow2"
    session.commit()
    second_node.prepare_pool("default", "/srv/b")
    second_node.create_disk(Disk("default", "web.qcow2", 3 * GiB))
    row = start_migration()
    run_tasks()
    assert (reload(row).status, "would be replaced" in reload(row).error) == ("failed", True)
    assert Disk("default", "web.qcow2", 3 * GiB) in second_node.disks("default")
    assert reload(machine).hypervisor_id == machine.hypervisor_id
    second_node.delete_disk("default", "web.qcow2")
    row = start_migration()
    run_tasks()
    assert reload(row).status == "completed", reload(row).error
    assert "web.qcow2" in {disk.name for disk in second_node.disks("default")}
