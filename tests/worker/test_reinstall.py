"""Reinstalls that fail or lose their worker at each step: the old system stays until the disk of the new one is
complete, and nothing is left of the other one."""

import pytest
from sqlalchemy import select

from panel.core.db import session
from panel.models import Disk
from panel.services import catalog, instances, tasks
from worker.nodes.simulated.fault_injection import CAPACITY_OPERATIONS
from worker.sync import node_sync
from worker.tasks import machine_spec

CALLS_BEFORE_DATA_LOSS = ("has_image", "put_image", "create_disk", "create_seed", "power", "power_off")
CALLS_AFTER_DATA_LOSS = ("define", "start")
STATES = {"on": "running", "off": "stopped"}
FAULT_MESSAGES = {
    "refuse": "The hypervisor refused this.",
    "silent": "The hypervisor does not answer.",
    "lost-answer": "The hypervisor did not answer in time.",
    "full": "The hypervisor does not have enough space left.",
}


def list_fault_cases(steps):
    kinds = ("refuse", "silent", "lost-answer", "full")
    return [(step, kind) for step in steps for kind in kinds if kind != "full" or step in CAPACITY_OPERATIONS]


def list_expected_names(instance):
    """Return the names of the machines and of the files that should be on the node."""
    return {instance.name}, {instance.disks[0].name, machine_spec.get_seed_name(instance)}


def read_power(node, instance):
    return node.power(instance.id).value


def repair_node(node, manual_reaper, run_tasks):
    node.clear()
    node.ping()
    manual_reaper.advance(100)
    run_tasks()


@pytest.fixture
def other_image(cast):
    """Another image, which the node does not have yet."""
    image = catalog.register_image(
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
    return image


@pytest.fixture
def reinstall_task(running_instance, other_image):
    """The waiting task that reinstalls the running instance with another image."""
    task, _ = instances.reinstall(running_instance, image_id=other_image.id, hostname="new", actor="owner@example.com")
    session.commit()
    return task


@pytest.fixture
def fail_reinstall(reinstall_task, run_tasks, node, manual_reaper, reload_task):
    """Return a function that reinstalls with a fault at one step, repairs the node and ends the rollback."""

    def fail(step, kind):
        node.fault(step, kind)
        run_tasks()
        task = reload_task(reinstall_task)
        assert (task.status, task.error) == ("failed", FAULT_MESSAGES[kind])
        repair_node(node, manual_reaper, run_tasks)
        assert not reload_task(reinstall_task).rollback_pending

    return fail


@pytest.mark.parametrize(("step", "kind"), list_fault_cases(CALLS_BEFORE_DATA_LOSS))
def test_reinstall_failure_before_data_loss_keeps_old_system(
    running_instance, fail_reinstall, node, names_on_node, reload, step, kind
):
    before, disk, image, hostname = (
        list_expected_names(running_instance),
        running_instance.disks[0].name,
        running_instance.image_id,
        running_instance.hostname,
    )
    fail_reinstall(step, kind)
    instance = reload(running_instance)
    assert (instance.state, instance.last_error) == ("running", None)
    assert (instance.disks[0].name, instance.image_id, instance.hostname) == (disk, image, hostname)
    assert names_on_node() == before
    assert read_power(node, instance) == "on"


@pytest.mark.parametrize(("step", "kind"), list_fault_cases(CALLS_AFTER_DATA_LOSS))
def test_reinstall_failure_after_data_loss_leaves_new_system_stopped(
    running_instance, fail_reinstall, run_tasks, node, names_on_node, reload, step, kind, request_action, other_image
):
    fail_reinstall(step, kind)
    node_sync.reconcile(running_instance.hypervisor_id)
    instance = reload(running_instance)
    assert (instance.last_error, instance.image_id) == (FAULT_MESSAGES[kind], other_image.id)
    assert instance.state == ("running" if (step, kind) == ("start", "lost-answer") else "stopped")
    assert names_on_node() == list_expected_names(instance)
    request_action(instance, "poweroff")
    run_tasks()
    request_action(reload(running_instance), "start")
    run_tasks()
    instance = reload(running_instance)
    assert (instance.state, instance.last_error) == ("running", None)
    assert node.agent_run(instance.id, ["hostname"]).output == "new\n"


@pytest.mark.parametrize("kind", ["refuse", "silent", "lost-answer"])
def test_reinstall_deletes_old_disk_later_after_failed_delete(
    running_instance,
    reinstall_task,
    run_tasks,
    node,
    manual_reaper,
    names_on_node,
    reload_task,
    reload,
    kind,
    event_kinds,
):
    node.fault("delete_disk", kind)
    run_tasks()
    assert (reload_task(reinstall_task).status, reload_task(reinstall_task).rollback_pending) == ("failed", True)
    assert (reload(running_instance).state, reload(running_instance).last_error) == ("running", None)
    repair_node(node, manual_reaper, run_tasks)
    assert not reload_task(reinstall_task).rollback_pending
    assert names_on_node() == list_expected_names(reload(running_instance))
    assert event_kinds(running_instance)[-1] == "instance.reinstalled"


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("step", [*CALLS_BEFORE_DATA_LOSS, *CALLS_AFTER_DATA_LOSS, "delete_disk"])
def test_reinstall_completes_after_worker_kill_at_each_call(
    running_instance,
    reinstall_task,
    run_tasks,
    node,
    manual_reaper,
    names_on_node,
    reload_task,
    reload,
    kill_worker_at,
    step,
    after,
    event_kinds,
    other_image,
):
    old_disk = running_instance.disks[0].name
    kill_worker_at(reinstall_task, step, after=after)
    assert {running_instance.name} == names_on_node()[0]
    assert reload(running_instance).disks[0].name in names_on_node()[1]  # the disk of the row exists
    manual_reaper.advance(100)
    run_tasks()
    assert reload_task(reinstall_task).status == "completed"
    instance = reload(running_instance)
    assert (instance.state, instance.last_error, instance.image_id) == ("running", None, other_image.id)
    assert instance.disks[0].name != old_disk
    assert names_on_node() == list_expected_names(instance)
    assert read_power(node, instance) == "on"
    assert node.agent_run(instance.id, ["hostname"]).output == "new\n"
    assert event_kinds(running_instance).count("instance.reinstalled") == 1


def test_reinstall_of_stopped_instance_starts_it_only_on_success(
    running_instance, request_action, run_tasks, node, reload, reload_task, names_on_node, manual_reaper
):
    request_action(running_instance, "poweroff")
    run_tasks()
    task, _ = instances.reinstall(reload(running_instance), actor="owner@example.com")
    session.commit()
    node.fault("create_seed", "refuse")
    run_tasks()
    repair_node(node, manual_reaper, run_tasks)
    assert (reload_task(task).status, reload(running_instance).state) == ("failed", "stopped")
    assert read_power(node, running_instance) == "off"
    task, _ = instances.reinstall(reload(running_instance), actor="owner@example.com")
    session.commit()
    run_tasks()
    assert (reload_task(task).status, reload(running_instance).state) == ("completed", "running")
    assert names_on_node() == list_expected_names(reload(running_instance))


def test_reinstall_recreates_missing_machine(running_instance, run_tasks, node, reload, names_on_node):
    node.external_delete(running_instance.id)
    node_sync.reconcile(running_instance.hypervisor_id)
    assert reload(running_instance).missing_on_node
    instances.reinstall(reload(running_instance), actor="owner@example.com")
    session.commit()
    run_tasks()
    instance = reload(running_instance)
    assert (instance.state, instance.missing_on_node, instance.last_error) == ("running", False, None)
    assert names_on_node() == list_expected_names(instance)


@pytest.mark.parametrize("step", ["create_disk", "power_off", "define"])
def test_cancelled_reinstall_leaves_one_complete_system(
    running_instance, reinstall_task, run_tasks, node, fault_at, reload, reload_task, names_on_node, step
):
    def cancel():
        tasks.cancel(reload_task(reinstall_task))
        session.commit()

    with fault_at(step, then=cancel):
        run_tasks()
    assert reload_task(reinstall_task).status == "cancelled"
    node_sync.reconcile(running_instance.hypervisor_id)
    instance = reload(running_instance)
    assert names_on_node() == list_expected_names(instance)
    assert instance.state == ("stopped" if step == "define" else "running") == STATES[read_power(node, instance)]
    assert bool(instance.last_error) == (step == "define")


def test_repeated_reinstall_and_destroy_leave_no_files(
    running_instance, run_tasks, request_action, reload, names_on_node, node
):
    for _ in range(2):
        instances.reinstall(reload(running_instance), actor="owner@example.com")
        session.commit()
        run_tasks()
        assert names_on_node() == list_expected_names(reload(running_instance))
    assert session.scalars(select(Disk.name)).all() == [reload(running_instance).disks[0].name]
    request_action(reload(running_instance), "destroy")
    run_tasks()
    assert names_on_node() == (set(), set())


def test_destroy_cancels_waiting_reinstall(
    running_instance, reinstall_task, run_tasks, request_action, reload, names_on_node
):
    request_action(running_instance, "destroy")
    run_tasks()
    assert reload(running_instance) is None
    assert names_on_node() == (set(), set())
