"""Nodes that refuse, fall silent, lose an answer or have no room, at each step of a create, a destroy and an undo."""

import pytest
from sqlalchemy import select

from panel.core.db import session
from panel.models import Address, Task
from worker.nodes.simulated.fault_injection import NEED_ROOM
from worker.tasks import machine_spec

STEPS = ("has_image", "put_image", "create_disk", "write_seed", "define", "start")
FAULTS = [
    (step, kind)
    for step in STEPS
    for kind in ("refuse", "silent", "lost-answer", "full")
    if kind != "full" or step in NEED_ROOM
]
SAYS = {
    "refuse": "The hypervisor refused this.",
    "silent": "The hypervisor does not answer.",
    "lost-answer": "The hypervisor did not answer in time.",
    "full": "There is not enough room on the hypervisor.",
}


@pytest.mark.parametrize(("step", "kind"), FAULTS)
def test_a_create_that_fails_leaves_the_reason_and_nothing_else(
    order, work, node, cast, on_node, sweeping, kinds, row, again, step, kind
):
    node.delete_image("default", machine_spec.on_node(cast.image).name)
    instance, asked = order()
    node.fault(step, kind)
    work()
    failed = row(asked)
    assert (failed.status, failed.error, failed.stage) == ("failed", SAYS[kind], "Stopped")
    assert on_node() == (set(), set())
    instance = again(instance)
    assert (instance.state, instance.last_error, instance.deployed) == ("pending", SAYS[kind], False)
    assert instance.addresses  # they are the instance's for as long as its row is there
    node.clear()
    node.ping()
    sweeping.passes(100)
    work()
    assert not row(asked).undo_left

    _, second = order(instance)
    work()
    assert row(second).status == "completed"
    assert (again(instance).state, again(instance).last_error) == ("running", None)
    assert on_node() == ({instance.name}, {f"{instance.name}-0.qcow2", f"{instance.name}-seed.iso"})
    assert kinds(instance) == ["instance.created", "instance.deployed"]


@pytest.mark.parametrize("step", STEPS)
def test_a_node_that_dies_in_the_middle_is_cleaned_when_it_is_back(
    order, work, node, at, on_node, sweeping, row, again, step
):
    instance, asked = order()
    with at(step, then=lambda: node.fault("*", "silent"), after=True):
        work()
    assert row(asked).status == ("completed" if step == "start" else "failed")
    sweeping.passes(50)  # it is still away
    work()
    node.clear()
    node.ping()
    sweeping.passes(50)
    work()
    assert not row(asked).undo_left
    if step != "start":
        assert on_node() == (set(), set())
        assert again(instance).state == "pending"


def test_a_call_that_has_its_effect_after_it_was_given_up(order, work, node, on_node, sweeping, row, cast):
    """The node was silent, the create was given up and taken back, and only then the node made the disk after all."""
    instance, asked = order()
    node.fault("create_disk", "silent", 1)
    work()
    assert row(asked).status == "failed"
    disk = machine_spec.disk_of(instance.disks[0])
    node.create_disk(disk, machine_spec.on_node(cast.image))
    sweeping.passes(50)
    work()
    assert on_node() == (set(), set())
    assert not row(asked).undo_left


@pytest.mark.parametrize("step", ["delete", "delete_disk"])
@pytest.mark.parametrize("kind", ["refuse", "silent", "lost-answer"])
def test_a_destroy_on_a_node_that_fails_can_be_tried_again(machine, act, work, node, on_node, row, again, step, kind):
    asked = act(machine, "destroy")
    node.fault(step, kind)
    work()
    assert (row(asked).status, row(asked).error) == ("failed", SAYS[kind])
    assert again(machine).addresses
    node.clear()
    node.ping()
    asked = act(again(machine), "destroy")
    work()
    assert row(asked).status == "completed"
    assert again(machine) is None
    assert on_node() == (set(), set())
    assert session.scalar(select(Address.id).where(Address.interface_id.is_not(None))) is None


def test_a_destroy_on_a_node_that_was_installed_anew(machine, act, work, node, row, again):
    with node.state.transaction() as state:
        for table in ("machines", "disks", "pools"):
            state.execute(f"delete from {table}")
    asked = act(machine, "destroy")
    work()
    node.prepare_pool("default", "/srv/disks")
    assert row(asked).status == "completed"
    assert again(machine) is None


def test_a_destroy_on_a_node_that_is_down(machine, act, work, node, row, again):
    node.fault("*", "silent")
    asked = act(machine, "destroy")
    work()
    assert (row(asked).status, row(asked).error) == ("failed", SAYS["silent"])
    assert again(machine).name == machine.name
    node.clear()
    node.ping()
    act(again(machine), "destroy")
    work()
    assert again(machine) is None


@pytest.mark.parametrize("kind", ["refuse", "silent", "lost-answer"])
@pytest.mark.parametrize(("action", "step"), [("stop", "shutdown"), ("poweroff", "power_off"), ("restart", "restart")])
def test_a_power_task_that_fails_says_why_and_changes_nothing(machine, act, work, node, row, again, action, step, kind):
    asked = act(machine, action)
    node.fault(step, kind)
    work()
    assert (row(asked).status, row(asked).error) == ("failed", SAYS[kind])
    assert again(machine).state == "running"
    assert session.scalars(select(Task.id).where(Task.status == "running")).all() == []


def test_a_start_of_a_machine_that_has_no_room(machine, act, work, node, row, again):
    act(machine, "poweroff")
    work()
    asked = act(again(machine), "start")
    node.fault("start", "full", 1)
    work()
    assert (row(asked).status, row(asked).error) == ("failed", SAYS["full"])
    assert again(machine).state == "stopped"
    asked = act(again(machine), "start")
    work()
    assert again(machine).state == "running"
