"""Reinstalls that fail or lose their worker at each step: the old system is there until the new one's disk is complete,
and from then on the new one. Nothing is left of the other."""

import pytest
from sqlalchemy import select

from panel.core.db import session
from panel.models import Disk
from panel.services import catalog, instances, tasks
from worker.nodes.simulated.fault_injection import NEED_ROOM
from worker.sync import node_sync
from worker.tasks import machine_spec

BEFORE = ("has_image", "put_image", "create_disk", "write_seed", "power", "power_off")
AFTER = ("define", "start")
STATES = {"on": "running", "off": "stopped"}
SAYS = {
    "refuse": "The hypervisor refused this.",
    "silent": "The hypervisor does not answer.",
    "lost-answer": "The hypervisor did not answer in time.",
    "full": "There is not enough room on the hypervisor.",
}


def faults(steps):
    kinds = ("refuse", "silent", "lost-answer", "full")
    return [(step, kind) for step in steps for kind in kinds if kind != "full" or step in NEED_ROOM]


def names(instance):
    """What should be on the node."""
    return {instance.name}, {instance.disks[0].name, machine_spec.seed_name(instance)}


def power_of(node, instance):
    return node.power(instance.id).value


def mend(node, sweeping, work):
    node.clear()
    node.ping()
    sweeping.passes(100)
    work()


@pytest.fixture
def other_image(cast):
    """Another image, which the node does not have yet."""
    made = catalog.register_image(
        name="other",
        label="Other",
        distro="Debian",
        version="13",
        filename="tiny.qcow2",
        size=64,
        sha256="cd" * 32,
        min_ram=192,
    )
    session.commit()
    return made


@pytest.fixture
def reinstalling(machine, other_image):
    """A reinstall of the running machine, with another image, that waits for a worker."""
    asked, _ = instances.reinstall(machine, image_id=other_image.id, hostname="new", actor="owner@example.com")
    session.commit()
    return asked


@pytest.mark.parametrize(("step", "kind"), faults(BEFORE))
def test_a_failure_before_the_new_disk_is_complete_leaves_the_old_system(
    machine, reinstalling, work, node, sweeping, on_node, row, again, step, kind
):
    before, disk, image, host = names(machine), machine.disks[0].name, machine.image_id, machine.hostname
    node.fault(step, kind)
    work()
    assert (row(reinstalling).status, row(reinstalling).error) == ("failed", SAYS[kind])
    mend(node, sweeping, work)
    assert not row(reinstalling).undo_left
    instance = again(machine)
    assert (instance.state, instance.last_error) == ("running", None)
    assert (instance.disks[0].name, instance.image_id, instance.hostname) == (disk, image, host)
    assert on_node() == before
    assert power_of(node, instance) == "on"


@pytest.mark.parametrize(("step", "kind"), faults(AFTER))
def test_a_failure_after_it_leaves_the_new_system_stopped_with_the_reason(
    machine, reinstalling, work, node, sweeping, on_node, row, again, step, kind, act, other_image
):
    node.fault(step, kind)
    work()
    assert (row(reinstalling).status, row(reinstalling).error) == ("failed", SAYS[kind])
    mend(node, sweeping, work)
    node_sync.refresh(machine.hypervisor_id)
    assert not row(reinstalling).undo_left
    instance = again(machine)
    assert (instance.last_error, instance.image_id) == (SAYS[kind], other_image.id)
    assert instance.state == ("running" if (step, kind) == ("start", "lost-answer") else "stopped")
    assert on_node() == names(instance)
    act(instance, "poweroff")
    work()
    act(again(machine), "start")
    work()
    instance = again(machine)
    assert (instance.state, instance.last_error) == ("running", None)
    assert node.agent_run(instance.id, ["hostname"]).output == "new\n"


@pytest.mark.parametrize("kind", ["refuse", "silent", "lost-answer"])
def test_an_old_disk_that_cannot_be_removed_goes_later(
    machine, reinstalling, work, node, sweeping, on_node, row, again, kind, kinds
):
    node.fault("delete_disk", kind)
    work()
    assert (row(reinstalling).status, row(reinstalling).undo_left) == ("failed", True)
    assert (again(machine).state, again(machine).last_error) == ("running", None)
    mend(node, sweeping, work)
    assert not row(reinstalling).undo_left
    assert on_node() == names(again(machine))
    assert kinds(machine)[-1] == "instance.reinstalled"


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("step", [*BEFORE, *AFTER, "delete_disk"])
def test_a_worker_that_is_killed_at_any_step(
    machine, reinstalling, work, node, sweeping, on_node, row, again, die, step, after, kinds, other_image
):
    old = machine.disks[0].name
    die(reinstalling, step, after=after)
    assert {machine.name} == on_node()[0]
    assert again(machine).disks[0].name in on_node()[1]  # what the row tells of is there
    sweeping.passes(100)
    work()
    assert row(reinstalling).status == "completed"
    instance = again(machine)
    assert (instance.state, instance.last_error, instance.image_id) == ("running", None, other_image.id)
    assert instance.disks[0].name != old
    assert on_node() == names(instance)
    assert power_of(node, instance) == "on"
    assert node.agent_run(instance.id, ["hostname"]).output == "new\n"
    assert kinds(machine).count("instance.reinstalled") == 1


def test_a_machine_that_was_off_stays_off_when_it_fails_and_runs_when_it_works(
    machine, act, work, node, again, row, on_node, sweeping
):
    act(machine, "poweroff")
    work()
    asked, _ = instances.reinstall(again(machine), actor="owner@example.com")
    session.commit()
    node.fault("write_seed", "refuse")
    work()
    mend(node, sweeping, work)
    assert (row(asked).status, again(machine).state) == ("failed", "stopped")
    assert power_of(node, machine) == "off"
    asked, _ = instances.reinstall(again(machine), actor="owner@example.com")
    session.commit()
    work()
    assert (row(asked).status, again(machine).state) == ("completed", "running")
    assert on_node() == names(again(machine))


def test_a_machine_that_its_node_lost_is_made_anew(machine, work, node, again, on_node):
    node.lose(machine.id)
    node_sync.refresh(machine.hypervisor_id)
    assert again(machine).lost
    instances.reinstall(again(machine), actor="owner@example.com")
    session.commit()
    work()
    instance = again(machine)
    assert (instance.state, instance.lost, instance.last_error) == ("running", False, None)
    assert on_node() == names(instance)


@pytest.mark.parametrize("step", ["create_disk", "power_off", "define"])
def test_one_that_is_cancelled_leaves_one_system_or_the_other(
    machine, reinstalling, work, node, at, again, row, on_node, step
):
    def cancel():
        tasks.cancel(row(reinstalling))
        session.commit()

    with at(step, then=cancel):
        work()
    assert row(reinstalling).status == "cancelled"
    node_sync.refresh(machine.hypervisor_id)
    instance = again(machine)
    assert on_node() == names(instance)
    assert instance.state == ("stopped" if step == "define" else "running") == STATES[power_of(node, instance)]
    assert bool(instance.last_error) == (step == "define")


def test_a_second_reinstall_and_a_destroy_leave_nothing(machine, work, act, again, on_node, node):
    for _ in range(2):
        instances.reinstall(again(machine), actor="owner@example.com")
        session.commit()
        work()
        assert on_node() == names(again(machine))
    assert session.scalars(select(Disk.name)).all() == [again(machine).disks[0].name]
    act(again(machine), "destroy")
    work()
    assert on_node() == (set(), set())


def test_a_destroy_ends_a_reinstall_that_waits(machine, reinstalling, work, act, again, on_node):
    act(machine, "destroy")
    work()
    assert again(machine) is None
    assert on_node() == (set(), set())
