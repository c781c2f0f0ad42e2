"""What workers do when a machine moves: whatever happens, one node has it and the row says which."""

import pytest

from panel.core.db import session
from panel.models import Hypervisor, Task
from panel.services import migrations, tasks
from tests.migrations.conftest import again, look
from worker.engine import runner
from worker.nodes.base import Disk, GiB, Power
from worker.nodes.simulated import SimulatedNode
from worker.tasks import migrations as moving


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(moving, "SLOWLY", 0)


def disks(node):
    return {disk.name for disk in node.disks("default") if disk.name.startswith("h")}


def ids(node):
    return {machine.id for machine in node.machines()}


def test_a_machine_moves_while_it_runs(machine, move, node, other, second, work):
    """INS-11: `migrating` from the request on."""
    boots = lambda each: each.state.rows("SELECT boots FROM machines")[0][0]  # noqa: E731
    before, addresses = boots(node), [address.ip for address in machine.addresses]
    row = move()
    assert (again(machine).state, row.kind) == ("migrating", "live")
    work()
    found = again(machine)
    assert (found.state, found.hypervisor_id, found.disks[0].on.hypervisor_id) == ("running", second.id, second.id)
    assert (ids(node), ids(other), boots(other)) == (set(), {machine.id}, before)
    assert (disks(node), len(disks(other))) == (set(), 2)
    assert (again(row).status, again(row).left_behind, again(row).cleanup_pending) == ("completed", [], False)
    assert [address.ip for address in found.addresses] == addresses


def test_a_machine_that_is_off_moves_and_stays_off(machine, move, node, other, second, work):
    node.power_off(machine.id)
    look(machine.hypervisor)
    row = move()
    assert row.kind == "cold"
    work()
    assert (again(machine).state, other.power(machine.id)) == ("stopped", Power.off)
    assert again(machine).hypervisor_id == second.id


def test_looks_at_the_nodes_say_nothing_of_a_machine_that_moves(machine, move, node, other, second, work):
    move()
    other.prepare_pool("default", "/srv/b")
    node.delete(machine.id)
    look(machine.hypervisor, second)
    assert (again(machine).lost, again(machine).state) == (False, "migrating")


def test_a_target_that_is_full_leaves_everything_as_it_was(machine, move, node, other, work):
    other.fault("create_disk", "full")
    row = move()
    work()
    found = again(machine)
    assert (found.state, found.migrating, found.hypervisor_id) == ("running", False, machine.hypervisor_id)
    assert (again(row).status, ids(node), ids(other), disks(other)) == ("failed", {machine.id}, set(), set())
    assert "room" in again(row).error
    assert len(disks(node)) == 2


@pytest.mark.parametrize("operation", ["has_image", "create_disk", "ping", "drop_arrival"])
def test_a_target_that_goes_silent_before_it_leaves_the_machine_at_home(machine, move, node, other, work, operation):
    other.fault(operation, "silent", count=1)
    if operation == "drop_arrival":
        other.fault("create_disk", "refuse", count=1)
    row = move()
    work()
    assert (again(machine).state, ids(node), again(row).status) == ("running", {machine.id}, "failed")
    other.clear()
    for left in session.query(Task).filter(Task.undo_left):
        runner.run(left.id, "sweeper")
    assert disks(other) == set()


def test_a_move_that_is_refused_is_rolled_back(machine, move, node, other, work):
    node.fault("move", "refuse")
    row = move()
    work()
    assert (again(machine).state, node.power(machine.id), again(row).status) == ("running", Power.on, "failed")
    assert (ids(other), disks(other)) == (set(), set())


def test_an_answer_that_was_lost_is_found_out(machine, move, node, other, second, work):
    node.fault("move", "lost-answer", count=1)
    row = move()
    work()
    assert (again(row).status, again(machine).hypervisor_id, again(machine).state) == (
        "completed",
        second.id,
        "running",
    )
    assert (ids(node), ids(other)) == (set(), {machine.id})


def test_silence_is_waited_out(machine, move, node, other, second, work, monkeypatch):
    """The move is done, its answer lost, and then nobody answers for a while."""
    node.fault("move", "lost-answer", count=1)
    node.fault("power", "silent", count=2)
    other.fault("power", "silent", count=2)
    row = move()
    work()
    assert (again(row).status, again(machine).hypervisor_id) == ("completed", second.id)


def test_a_source_that_dies_after_the_move_is_cleaned_later(machine, move, node, other, second, work, as_):
    node.fault("delete_disk", "silent")
    row = move()
    work()
    assert (again(row).status, again(machine).hypervisor_id, again(row).cleanup_pending) == (
        "completed",
        second.id,
        True,
    )
    assert len(disks(node)) == 2
    node.clear()
    node.ping()
    assert as_("admin", "POST", f"/api/v1/migration/{row.id}/complete").status_code == 200
    work()
    assert (disks(node), again(row).cleanup_pending) == (set(), False)
    assert as_("admin", "POST", f"/api/v1/migration/{row.id}/complete").status_code == 409


def test_it_is_stopped_on_request(machine, move, node, other, work, monkeypatch):
    row = move()
    real = SimulatedNode._tell

    def stopped(self, definition, progress):
        tasks.cancel(session.get(Task, row.task_id))
        session.commit()
        real(self, definition, progress)

    monkeypatch.setattr(SimulatedNode, "_tell", stopped)
    work()
    assert (again(row).status, again(machine).state, ids(other)) == ("cancelled", "running", set())
    assert disks(other) == set()


def test_once_it_has_arrived_it_is_too_late_to_stop_it(machine, move, node, other, second, work, monkeypatch):
    """Otherwise the row would say that it is where it is not."""
    row = move()
    real = SimulatedNode.move

    def moved(self, *args):
        real(self, *args)
        tasks.cancel(session.get(Task, row.task_id))
        session.commit()

    monkeypatch.setattr(SimulatedNode, "move", moved)
    work()
    assert (again(row).status, again(machine).hypervisor_id, ids(other)) == ("completed", second.id, {machine.id})


class Killed(BaseException):
    """As SIGKILL."""


STEPS = [
    ("create_disk", "before"),
    ("create_disk", "after"),
    ("copy_medium", "after"),
    ("move", "before"),
    ("_receive", "after"),
    ("_take_over", "before"),
    ("move", "after"),
    ("delete_disk", "after"),
]


@pytest.mark.parametrize(("step", "when"), STEPS)
@pytest.mark.parametrize("on", [True, False])
def test_whoever_takes_over_from_a_dead_worker_brings_it_to_an_end(
    machine, move, node, other, second, work, monkeypatch, step, when, on
):
    if not on:
        node.power_off(machine.id)
        look(machine.hypervisor)
    row = move()
    real = getattr(SimulatedNode, step)

    def die(self, *args, **options):
        if when == "after":
            real(self, *args, **options)
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(SimulatedNode, step, die)
        with pytest.raises(Killed):
            runner.run(row.task_id, "worker that dies")
    session.rollback()
    asked = session.get(Task, row.task_id, populate_existing=True)
    asked.status, asked.worker = "queued", None
    session.commit()
    assert ids(node) | ids(other) == {machine.id}
    runner.run(row.task_id, "worker that lives")
    found = again(machine)
    assert (found.state, found.hypervisor_id) == ("running" if on else "stopped", second.id)
    assert (ids(node), ids(other), again(row).status) == (set(), {machine.id}, "completed")
    assert other.power(machine.id) is (Power.on if on else Power.off)
    assert (disks(node), len(disks(other))) == (set(), 2)


def test_an_evacuation_empties_a_hypervisor(machine, cast, node, other, second, work):
    never_made = cast.instance()
    never_made.hypervisor_id = cast.node.id
    session.commit()
    parent = migrations.evacuate(again(machine.hypervisor), actor="admin")
    session.commit()
    for row in session.scalars(migrations.listing(parent_task_id=parent.id)).all():
        runner.run(row.task_id, "a worker")
    work()
    assert (again(machine).hypervisor_id, again(never_made).hypervisor_id) == (second.id, second.id)
    assert again(never_made).disks[0].on.hypervisor_id == second.id
    assert (again(parent).status, session.get(Hypervisor, cast.node.id).maintenance) == ("completed", True)
    assert ids(node) == set()


def test_an_evacuation_tells_what_could_not_move(machine, second, work):
    again(second).locked = True
    session.commit()
    parent = migrations.evacuate(again(machine.hypervisor), actor="admin")
    session.commit()
    assert parent.arguments["refused"].keys() == {machine.name}
    work()
    assert (again(parent).status, again(machine).state) == ("failed", "running")


def test_an_adopted_disk_replaces_nobody_s_of_its_name(machine, move, node, other, work):
    """The disks of adopted machines are called as somebody else called them."""
    node.create_disk(Disk("default", "web.qcow2", GiB))
    machine.disks[0].name = "web.qcow2"
    session.commit()
    other.prepare_pool("default", "/srv/b")
    other.create_disk(Disk("default", "web.qcow2", 3 * GiB))
    row = move()
    work()
    assert (again(row).status, "would be replaced" in again(row).error) == ("failed", True)
    assert Disk("default", "web.qcow2", 3 * GiB) in other.disks("default")
    assert again(machine).hypervisor_id == machine.hypervisor_id
    other.delete_disk("default", "web.qcow2")
    row = move()
    work()
    assert again(row).status == "completed", again(row).error
    assert "web.qcow2" in {disk.name for disk in other.disks("default")}
