"""Reinstalls that fail or lose their worker at each step: the old system is there until the new one's disk is complete,
and from then on the new one. Nothing is left of the other."""

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


def fault_cases(steps):
    kinds = ("refuse", "silent", "lost-answer", "full")
    return [(step, kind) for step in steps for kind in kinds if kind != "full" or step in CAPACITY_OPERATIONS]


def expected_names(instance):
    """What should be on the node."""
    return {instance.name}, {instance.disks[0].name, machine_spec.seed_name(instance)}


def power_of(node, instance):
    return node.power(instance.id).value


def repair_node(node, sweeping, work):
    node.clear()
    node.ping()
    sweeping.advance(100)
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


@pytest.mark.parametrize(("step", "kind"), fault_cases(CALLS_BEFORE_DATA_LOSS))
def test_a_failure_before_the_new_disk_is_complete_leaves_the_old_system(
    machine, reinstalling, run_tasks, node, manual_reaper, names_on_node, reload_task, reload, step, kind
):
    before, disk, image, host = expected_names(machine), machine.disks[0].name, machine.image_id, machine.hostname
    node.fault(step, kind)
    run_tasks()
    assert (reload_task(reinstalling).status, reload_task(reinstalling).error) == ("failed", FAULT_MESSAGES[kind])
    repair_node(node, manual_reaper, run_tasks)
    assert not reload_task(reinstalling).rollback_pending
    instance = reload(machine)
    assert (instance.state, instance.last_error) == ("running", None)
    assert (instance.disks[0].name, instance.image_id, instance.hostname) == (disk, image, host)
    assert names_on_node() == before
    assert power_of(node, instance) == "on"


@pytest.mark.parametrize(("step", "kind"), fault_cases(CALLS_AFTER_DATA_LOSS))
def test_a_failure_after_it_leaves_the_new_system_stopped_with_the_reason(
    machine,
    reinstalling,
    run_tasks,
    node,
    manual_reaper,
    names_on_node,
    reload_task,
    reload,
    step,
    kind,
    request_action,
    other_image,
):
    node.fault(step, kind)
    run_tasks()
    assert (reload_task(reinstalling).status, reload_task(reinstalling).error) == ("failed", FAULT_MESSAGES[kind])
    repair_node(node, manual_reaper, run_tasks)
    node_sync.reconcile(machine.hypervisor_id)
    assert not reload_task(reinstalling).rollback_pending
    instance = reload(machine)
    assert (instance.last_error, instance.image_id) == (FAULT_MESSAGES[kind], other_image.id)
    assert instance.state == ("running" if (step, kind) == ("start", "lost-answer") else "stopped")
    assert names_on_node() == expected_names(instance)
    request_action(instance, "poweroff")
    run_tasks()
    request_action(reload(machine), "start")
    run_tasks()
    instance = reload(machine)
    assert (instance.state, instance.last_error) == ("running", None)
    assert node.agent_run(instance.id, ["hostname"]).output == "new\n"


@pytest.mark.parametrize("kind", ["refuse", "silent", "lost-answer"])
def test_an_old_disk_that_cannot_be_removed_goes_later(
    machine, reinstalling, run_tasks, node, manual_reaper, names_on_node, reload_task, reload, kind, event_kinds
):
    node.fault("delete_disk", kind)
    run_tasks()
    assert (reload_task(reinstalling).status, reload_task(reinstalling).rollback_pending) == ("failed", True)
    assert (reload(machine).state, reload(machine).last_error) == ("running", None)
    repair_node(node, manual_reaper, run_tasks)
    assert not reload_task(reinstalling).rollback_pending
    assert names_on_node() == expected_names(reload(machine))
    assert event_kinds(machine)[-1] == "instance.reinstalled"


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("step", [*CALLS_BEFORE_DATA_LOSS, *CALLS_AFTER_DATA_LOSS, "delete_disk"])
def test_a_worker_that_is_killed_at_any_step(
    machine,
    reinstalling,
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
    old = machine.disks[0].name
    kill_worker_at(reinstalling, step, after=after)
    assert {machine.name} == names_on_node()[0]
    assert reload(machine).disks[0].name in names_on_node()[1]  # what the row tells of is there
    manual_reaper.advance(100)
    run_tasks()
    assert reload_task(reinstalling).status == "completed"
    instance = reload(machine)
    assert (instance.state, instance.last_error, instance.image_id) == ("running", None, other_image.id)
    assert instance.disks[0].name != old
    assert names_on_node() == expected_names(instance)
    assert power_of(node, instance) == "on"
    assert node.agent_run(instance.id, ["hostname"]).output == "new\n"
    assert event_kinds(machine).count("instance.reinstalled") == 1


def test_a_machine_that_was_off_stays_off_when_it_fails_and_runs_when_it_works(
    machine, request_action, run_tasks, node, reload, reload_task, names_on_node, manual_reaper
):
    request_action(machine, "poweroff")
    run_tasks()
    asked, _ = instances.reinstall(reload(machine), actor="owner@example.com")
    session.commit()
    node.fault("create_seed", "refuse")
    run_tasks()
    repair_node(node, manual_reaper, run_tasks)
    assert (reload_task(asked).status, reload(machine).state) == ("failed", "stopped")
    assert power_of(node, machine) == "off"
    asked, _ = instances.reinstall(reload(machine), actor="owner@example.com")
    session.commit()
    run_tasks()
    assert (reload_task(asked).status, reload(machine).state) == ("completed", "running")
    assert names_on_node() == expected_names(reload(machine))


def test_a_machine_that_its_node_lost_is_made_anew(machine, run_tasks, node, reload, names_on_node):
    node.external_delete(machine.id)
    node_sync.reconcile(machine.hypervisor_id)
    assert reload(machine).missing_on_node
    instances.reinstall(reload(machine), actor="owner@example.com")
    session.commit()
    run_tasks()
    instance = reload(machine)
    assert (instance.state, instance.missing_on_node, instance.last_error) == ("running", False, None)
    assert names_on_node() == expected_names(instance)


@pytest.mark.parametrize("step", ["create_disk", "power_off", "define"])
def test_one_that_is_cancelled_leaves_one_system_or_the_other(
    machine, reinstalling, run_tasks, node, fault_at, reload, reload_task, names_on_node, step
):
    def cancel():
        tasks.cancel(reload_task(reinstalling))
        session.commit()

    with fault_at(step, then=cancel):
        run_tasks()
    assert reload_task(reinstalling).status == "cancelled"
    node_sync.reconcile(machine.hypervisor_id)
    instance = reload(machine)
    assert names_on_node() == expected_names(instance)
    assert instance.state == ("stopped" if step == "define" else "running") == STATES[power_of(node, instance)]
    assert bool(instance.last_error) == (step == "define")


def test_a_second_reinstall_and_a_destroy_leave_nothing(
    machine, run_tasks, request_action, reload, names_on_node, node
):
    for _ in range(2):
        instances.reinstall(reload(machine), actor="owner@example.com")
        session.commit()
        run_tasks()
        assert names_on_node() == expected_names(reload(machine))
    assert session.scalars(select(Disk.name)).all() == [reload(machine).disks[0].name]
    request_action(reload(machine), "destroy")
    run_tasks()
    assert names_on_node() == (set(), set())


def test_a_destroy_ends_a_reinstall_that_waits(machine, reinstalling, run_tasks, request_action, reload, names_on_node):
    request_action(machine, "destroy")
    run_tasks()
    assert reload(machine) is None
    assert names_on_node() == (set(), set())
