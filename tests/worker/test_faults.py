"""Nodes that refuse, fall silent, lose an answer or have no room, at each step of a create, a destroy and an undo."""

import pytest
from sqlalchemy import select

from panel.core.db import session
from panel.models import Address, Task
from worker.nodes.simulated.fault_injection import CAPACITY_OPERATIONS
from worker.tasks import machine_spec

DEPLOY_NODE_CALLS = ("has_image", "put_image", "create_disk", "create_seed", "define", "start")
FAULT_CASES = [
    (step, kind)
    for step in DEPLOY_NODE_CALLS
    for kind in ("refuse", "silent", "lost-answer", "full")
    if kind != "full" or step in CAPACITY_OPERATIONS
]
FAULT_MESSAGES = {
    "refuse": "The hypervisor refused this.",
    "silent": "The hypervisor does not answer.",
    "lost-answer": "The hypervisor did not answer in time.",
    "full": "The hypervisor does not have enough space left.",
}


@pytest.mark.parametrize(("step", "kind"), FAULT_CASES)
def test_a_create_that_fails_leaves_the_reason_and_nothing_else(
    order, run_tasks, node, cast, names_on_node, manual_reaper, event_kinds, reload_task, reload, step, kind
):
    node.delete_image("default", machine_spec.node_image(cast.image).name)
    instance, asked = order()
    node.fault(step, kind)
    run_tasks()
    failed = reload_task(asked)
    assert (failed.status, failed.error, failed.stage) == ("failed", FAULT_MESSAGES[kind], "Stopped")
    assert names_on_node() == (set(), set())
    instance = reload(instance)
    assert (instance.state, instance.last_error, instance.deployed) == ("pending", FAULT_MESSAGES[kind], False)
    assert instance.addresses  # they are the instance's for as long as its row is there
    node.clear()
    node.ping()
    manual_reaper.advance(100)
    run_tasks()
    assert not reload_task(asked).rollback_pending

    _, second = order(instance)
    run_tasks()
    assert reload_task(second).status == "completed"
    assert (reload(instance).state, reload(instance).last_error) == ("running", None)
    assert names_on_node() == ({instance.name}, {f"{instance.name}-0.qcow2", f"{instance.name}-seed.iso"})
    assert event_kinds(instance) == ["instance.created", "instance.deployed"]


@pytest.mark.parametrize("step", DEPLOY_NODE_CALLS)
def test_a_node_that_dies_in_the_middle_is_cleaned_when_it_is_back(
    order, run_tasks, node, fault_at, names_on_node, manual_reaper, reload_task, reload, step
):
    instance, asked = order()
    with fault_at(step, then=lambda: node.fault("*", "silent"), after=True):
        run_tasks()
    assert reload_task(asked).status == ("completed" if step == "start" else "failed")
    manual_reaper.advance(50)  # it is still away
    run_tasks()
    node.clear()
    node.ping()
    manual_reaper.advance(50)
    run_tasks()
    assert not reload_task(asked).rollback_pending
    if step != "start":
        assert names_on_node() == (set(), set())
        assert reload(instance).state == "pending"


def test_a_call_that_has_its_effect_after_it_was_given_up(
    order, run_tasks, node, names_on_node, manual_reaper, reload_task, cast
):
    """The node was silent, the create was given up and taken back, and only then the node made the disk after all."""
    instance, asked = order()
    node.fault("create_disk", "silent", 1)
    run_tasks()
    assert reload_task(asked).status == "failed"
    disk = machine_spec.build_disk(instance.disks[0])
    node.create_disk(disk, machine_spec.node_image(cast.image))
    manual_reaper.advance(50)
    run_tasks()
    assert names_on_node() == (set(), set())
    assert not reload_task(asked).rollback_pending


@pytest.mark.parametrize("step", ["delete", "delete_disk"])
@pytest.mark.parametrize("kind", ["refuse", "silent", "lost-answer"])
def test_a_destroy_on_a_node_that_fails_can_be_tried_again(
    machine, request_action, run_tasks, node, names_on_node, reload_task, reload, step, kind
):
    asked = request_action(machine, "destroy")
    node.fault(step, kind)
    run_tasks()
    assert (reload_task(asked).status, reload_task(asked).error) == ("failed", FAULT_MESSAGES[kind])
    assert reload(machine).addresses
    node.clear()
    node.ping()
    asked = request_action(reload(machine), "destroy")
    run_tasks()
    assert reload_task(asked).status == "completed"
    assert reload(machine) is None
    assert names_on_node() == (set(), set())
    assert session.scalar(select(Address.id).where(Address.interface_id.is_not(None))) is None


def test_a_destroy_on_a_node_that_was_installed_anew(machine, request_action, run_tasks, node, reload_task, reload):
    with node.state.transaction() as state:
        for table in ("machines", "disks", "pools"):
            state.execute(f"delete from {table}")
    asked = request_action(machine, "destroy")
    run_tasks()
    node.prepare_pool("default", "/srv/disks")
    assert reload_task(asked).status == "completed"
    assert reload(machine) is None


def test_a_destroy_on_a_node_that_is_down(machine, request_action, run_tasks, node, reload_task, reload):
    node.fault("*", "silent")
    asked = request_action(machine, "destroy")
    run_tasks()
    assert (reload_task(asked).status, reload_task(asked).error) == ("failed", FAULT_MESSAGES["silent"])
    assert reload(machine).name == machine.name
    node.clear()
    node.ping()
    request_action(reload(machine), "destroy")
    run_tasks()
    assert reload(machine) is None


@pytest.mark.parametrize("kind", ["refuse", "silent", "lost-answer"])
@pytest.mark.parametrize(("action", "step"), [("stop", "shutdown"), ("poweroff", "power_off"), ("restart", "restart")])
def test_a_power_task_that_fails_says_why_and_changes_nothing(
    machine, request_action, run_tasks, node, reload_task, reload, action, step, kind
):
    asked = request_action(machine, action)
    node.fault(step, kind)
    run_tasks()
    assert (reload_task(asked).status, reload_task(asked).error) == ("failed", FAULT_MESSAGES[kind])
    assert reload(machine).state == "running"
    assert session.scalars(select(Task.id).where(Task.status == "running")).all() == []


def test_a_start_of_a_machine_that_has_no_room(machine, request_action, run_tasks, node, reload_task, reload):
    request_action(machine, "poweroff")
    run_tasks()
    asked = request_action(reload(machine), "start")
    node.fault("start", "full", 1)
    run_tasks()
    assert (reload_task(asked).status, reload_task(asked).error) == ("failed", FAULT_MESSAGES["full"])
    assert reload(machine).state == "stopped"
    asked = request_action(reload(machine), "start")
    run_tasks()
    assert reload(machine).state == "running"
