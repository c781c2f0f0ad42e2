"""Nodes that refuse a call, do not answer, lose an answer or have no capacity, at each step of a deploy, destroy and
rollback."""

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
def test_failed_deploy_leaves_only_error_message(
    request_deploy, run_tasks, node, cast, names_on_node, manual_reaper, event_kinds, reload_task, reload, step, kind
):
    node.delete_image("default", machine_spec.build_node_image(cast.image).name)
    instance, task = request_deploy()
    node.fault(step, kind)
    run_tasks()
    failed = reload_task(task)
    assert (failed.status, failed.error, failed.stage) == ("failed", FAULT_MESSAGES[kind], "Stopped")
    assert names_on_node() == (set(), set())
    instance = reload(instance)
    assert (instance.state, instance.last_error, instance.deployed) == ("pending", FAULT_MESSAGES[kind], False)
    assert instance.addresses  # the row keeps its addresses
    node.clear()
    node.ping()
    manual_reaper.advance(100)
    run_tasks()
    assert not reload_task(task).rollback_pending

    _, second = request_deploy(instance)
    run_tasks()
    assert reload_task(second).status == "completed"
    assert (reload(instance).state, reload(instance).last_error) == ("running", None)
    assert names_on_node() == ({instance.name}, {f"{instance.name}-0.qcow2", f"{instance.name}-seed.iso"})
    assert event_kinds(instance) == ["instance.created", "instance.deployed"]


@pytest.mark.parametrize("step", DEPLOY_NODE_CALLS)
def test_deploy_on_lost_node_is_rolled_back_after_recovery(
    request_deploy, run_tasks, node, fault_at, names_on_node, manual_reaper, reload_task, reload, step
):
    instance, task = request_deploy()
    with fault_at(step, then=lambda: node.fault("*", "silent"), after=True):
        run_tasks()
    assert reload_task(task).status == ("completed" if step == "start" else "failed")
    manual_reaper.advance(50)  # the node is still silent
    run_tasks()
    node.clear()
    node.ping()
    manual_reaper.advance(50)
    run_tasks()
    assert not reload_task(task).rollback_pending
    if step != "start":
        assert names_on_node() == (set(), set())
        assert reload(instance).state == "pending"


def test_deploy_rollback_removes_disk_created_after_timeout(
    request_deploy, run_tasks, node, names_on_node, manual_reaper, reload_task, cast
):
    """The node did not answer, the deploy was rolled back, and the node created the disk only after that."""
    instance, task = request_deploy()
    node.fault("create_disk", "silent", 1)
    run_tasks()
    assert reload_task(task).status == "failed"
    disk = machine_spec.build_disk(instance.disks[0])
    node.create_disk(disk, machine_spec.build_node_image(cast.image))
    manual_reaper.advance(50)
    run_tasks()
    assert names_on_node() == (set(), set())
    assert not reload_task(task).rollback_pending


@pytest.mark.parametrize("step", ["delete", "delete_disk"])
@pytest.mark.parametrize("kind", ["refuse", "silent", "lost-answer"])
def test_destroy_after_node_fault_can_be_retried(
    running_instance, request_action, run_tasks, node, names_on_node, reload_task, reload, step, kind
):
    task = request_action(running_instance, "destroy")
    node.fault(step, kind)
    run_tasks()
    assert (reload_task(task).status, reload_task(task).error) == ("failed", FAULT_MESSAGES[kind])
    assert reload(running_instance).addresses
    node.clear()
    node.ping()
    task = request_action(reload(running_instance), "destroy")
    run_tasks()
    assert reload_task(task).status == "completed"
    assert reload(running_instance) is None
    assert names_on_node() == (set(), set())
    assert session.scalar(select(Address.id).where(Address.interface_id.is_not(None))) is None


def test_destroy_on_reinstalled_node_completes(running_instance, request_action, run_tasks, node, reload_task, reload):
    with node.state.transaction() as state:
        for table in ("machines", "disks", "pools"):
            state.execute(f"delete from {table}")
    task = request_action(running_instance, "destroy")
    run_tasks()
    node.prepare_pool("default", "/srv/disks")
    assert reload_task(task).status == "completed"
    assert reload(running_instance) is None


def test_destroy_on_silent_node_fails_and_can_be_retried(
    running_instance, request_action, run_tasks, node, reload_task, reload
):
    node.fault("*", "silent")
    task = request_action(running_instance, "destroy")
    run_tasks()
    assert (reload_task(task).status, reload_task(task).error) == ("failed", FAULT_MESSAGES["silent"])
    assert reload(running_instance).name == running_instance.name
    node.clear()
    node.ping()
    request_action(reload(running_instance), "destroy")
    run_tasks()
    assert reload(running_instance) is None


@pytest.mark.parametrize("kind", ["refuse", "silent", "lost-answer"])
@pytest.mark.parametrize(("action", "step"), [("stop", "shutdown"), ("poweroff", "power_off"), ("restart", "restart")])
def test_failed_power_task_records_error_and_keeps_state(
    running_instance, request_action, run_tasks, node, reload_task, reload, action, step, kind
):
    task = request_action(running_instance, action)
    node.fault(step, kind)
    run_tasks()
    assert (reload_task(task).status, reload_task(task).error) == ("failed", FAULT_MESSAGES[kind])
    assert reload(running_instance).state == "running"
    assert session.scalars(select(Task.id).where(Task.status == "running")).all() == []


def test_start_without_capacity_fails_and_can_be_retried(
    running_instance, request_action, run_tasks, node, reload_task, reload
):
    request_action(running_instance, "poweroff")
    run_tasks()
    task = request_action(reload(running_instance), "start")
    node.fault("start", "full", 1)
    run_tasks()
    assert (reload_task(task).status, reload_task(task).error) == ("failed", FAULT_MESSAGES["full"])
    assert reload(running_instance).state == "stopped"
    task = request_action(reload(running_instance), "start")
    run_tasks()
    assert reload(running_instance).state == "running"
