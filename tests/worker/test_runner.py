"""The task runner in this process: claims, locks, steps, rollback, cancellation, and workers that are killed or lose
their lease."""

import itertools

import pytest
from sqlalchemy import select, text
from sqlalchemy.exc import OperationalError

from panel.core import clock, jobs
from panel.core.db import session
from panel.core.messages import message
from panel.models import Address, Instance, Task, TaskLog
from panel.models.tasks import OPEN_STATUSES
from panel.services import tasks
from panel.services.instances import state_reports
from tests.support.task_queue import queued_calls
from worker.engine import claiming, runner
from worker.engine.registry import TASK_TYPES, TaskType
from worker.nodes.base import Power
from worker.sync import node_sync
from worker.tasks import instances as instance_tasks
from worker.tasks import machine_spec

worker_names = (f"worker {number}" for number in itertools.count())


def run_task(task):
    runner.run(task.id, next(worker_names))


def test_deploy_records_task_log_and_events(
    request_deploy, run_tasks, node, names_on_node, event_kinds, reload_task, reload
):
    instance, task = request_deploy()
    assert (task.status, reload(instance).state) == ("queued", "pending")
    run_tasks()
    row = reload_task(task)
    assert (row.status, row.stage, row.progress, row.attempt) == ("completed", "Done", 100, 1)
    assert (row.error, row.secret, row.rollback_steps, row.rollback_pending, row.worker) == (
        None,
        None,
        [],
        False,
        None,
    )
    assert row.started_at <= row.finished_at
    logs = session.scalars(select(TaskLog.message).where(TaskLog.task_id == task.id).order_by(TaskLog.id)).all()
    assert logs[0] == "Preparing"
    assert logs[-3:] == ["Writing the first-boot configuration", "Defining the machine", "Starting"]
    assert reload(instance).state == "running"
    assert names_on_node() == ({instance.name}, {f"{instance.name}-0.qcow2", f"{instance.name}-seed.iso"})
    assert event_kinds(instance) == ["instance.created", "instance.deployed"]


def test_repeated_notification_runs_task_once(request_deploy, run_tasks, node, fault_at, event_kinds):
    instance, task = request_deploy()
    starts = []
    with fault_at(
        "start", then=lambda: (starts.append(1), run_task(task))
    ):  # a second notification arrives while the task runs
        run_task(task)
    run_task(task)
    assert len(starts) == 1
    assert event_kinds(instance).count("instance.deployed") == 1
    assert task.attempt == 1


LOCKS = ("exclusive", "final", "storage", "light")
COMPATIBLE_LOCKS = {("storage", "light"), ("light", "storage"), ("light", "light")}
REFUSED_LOCKS = {(lock, lock) for lock in claiming.EXCLUSIVE_LOCKS}
"""Pairs that a constraint of the database refuses."""


@pytest.mark.parametrize(
    ("running_lock", "requested_lock"), sorted(set(itertools.product(LOCKS, LOCKS)) - REFUSED_LOCKS)
)
def test_task_locks_allow_only_compatible_tasks(cast, running_lock, requested_lock):
    """Tasks of one resource run at the same time only when their locks are compatible."""
    instance = cast.instance()
    first, second = (add_task(instance, lock=lock) for lock in (running_lock, requested_lock))
    assert claiming.claim(first.id, "a") is first
    assert (claiming.claim(second.id, "b") is not None) == ((running_lock, requested_lock) in COMPATIBLE_LOCKS)
    assert second.id not in session.scalars(claiming.select_runnable()).all()


def add_task(instance, *, kind="instance_poweroff", lock="light", **values):
    task = jobs.enqueue(
        kind, "instance", instance, lock=lock, actor="test", hypervisor_id=instance.hypervisor_id, **values
    )
    session.commit()
    return task


def test_node_task_limit_does_not_count_light_tasks(cast):
    cast.node.max_tasks = 2
    storage_tasks = [add_task(cast.instance(), lock="storage") for _ in range(3)]
    assert [claiming.claim(row.id, row.id) is not None for row in storage_tasks] == [True, True, False]
    assert storage_tasks[2].id not in session.scalars(claiming.select_runnable()).all()
    light_task = add_task(cast.instance())
    assert claiming.claim(light_task.id, light_task.id) is light_task
    runner.finish(runner.TaskContext(storage_tasks[0], storage_tasks[0].id), "completed", stage="Done")
    queued_calls.clear()
    claiming.notify_waiting(storage_tasks[0])
    assert ("worker.engine.runner.run", (storage_tasks[2].id,)) in queued_calls
    assert claiming.claim(storage_tasks[2].id, "x") is storage_tasks[2]


def test_removed_node_is_never_at_capacity(cast):
    assert not claiming.is_at_capacity("removed")


def test_task_of_unknown_kind_stays_queued(cast, reload_task):
    task = add_task(cast.instance(), kind="instance_teleport")
    run_task(task)
    assert reload_task(task).status == "queued"


# --- cancellation


def test_waiting_task_is_cancelled_on_full_node(cast, request_deploy, run_tasks, reload_task, reload):
    cast.node.max_tasks = 0
    instance, task = request_deploy()
    run_tasks()
    assert reload_task(task).status == "queued"
    tasks.cancel(task)
    session.commit()
    run_tasks()
    assert (reload_task(task).status, reload_task(task).error) == ("cancelled", "The task was cancelled.")
    assert reload(instance).state == "pending"
    assert reload(instance).last_error == "The task was cancelled."


@pytest.mark.parametrize("step", ["put_image", "create_disk", "create_seed", "define"])
def test_cancelled_task_stops_at_next_step_and_rolls_back(
    request_deploy, run_tasks, fault_at, names_on_node, reload_task, reload, step, cast, node
):
    node.delete_image("default", machine_spec.build_node_image(cast.image).name)
    instance, task = request_deploy()
    with fault_at(step, then=lambda: (tasks.cancel(reload_task(task)), session.commit()), after=True):
        run_tasks()
    assert reload_task(task).status == "cancelled"
    assert names_on_node() == (set(), set())
    assert reload(instance).state == "pending"
    _, task = request_deploy(reload(instance))
    run_tasks()
    assert reload(instance).state == "running"


def test_image_transfer_is_cancelled_midway(request_deploy, run_tasks, fault_at, reload_task, cast, node):
    image = machine_spec.build_node_image(cast.image)
    node.delete_image("default", image.name)
    _, task = request_deploy()
    with fault_at("put_image", then=lambda: (tasks.cancel(reload_task(task)), session.commit())):
        run_tasks()
    assert reload_task(task).status == "cancelled"
    assert reload_task(task).bytes_total == image.size
    assert not node.has_image("default", image)


def test_late_cancellation_is_ignored(request_deploy, run_tasks, fault_at, reload_task, reload):
    instance, task = request_deploy()
    with fault_at("start", then=lambda: (tasks.cancel(reload_task(task)), session.commit()), after=True):
        run_tasks()
    assert reload_task(task).status == "completed"
    assert reload(instance).state == "running"


@pytest.mark.parametrize("step", ["has_image", "create_disk", "create_seed", "define", "start"])
def test_destroy_cancels_running_deploy_and_runs_after_it(
    request_deploy, run_tasks, fault_at, names_on_node, request_action, reload_task, reload, step
):
    instance, task = request_deploy()
    destroys, statuses = [], []

    def request_destroy():
        destroys.append(request_action(reload(instance), "destroy"))
        run_task(destroys[0])  # a worker receives the notification at once
        statuses.append(reload_task(destroys[0]).status)

    with fault_at(step, then=request_destroy):
        run_tasks()
    assert statuses == ["queued"]
    assert reload_task(task).status == ("completed" if step == "start" else "cancelled")
    assert reload_task(destroys[0]).status == "completed"
    assert names_on_node() == (set(), set())
    assert reload(instance) is None
    assert session.scalar(select(Address.id).where(Address.interface_id.is_not(None))) is None


def test_destroy_cancels_waiting_deploy(request_deploy, run_tasks, request_action, reload, names_on_node):
    instance, _ = request_deploy()
    request_action(instance, "destroy")
    run_tasks()
    assert reload(instance) is None
    assert names_on_node() == (set(), set())
    assert set(session.scalars(select(Task.status).where(Task.resource_id == instance.id))) == {
        "cancelled",
        "completed",
    }


# --- workers that are killed or lose their lease


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("step", ["has_image", "put_image", "create_disk", "create_seed", "define", "start"])
def test_deploy_of_killed_worker_completes_in_second_attempt(
    request_deploy,
    run_tasks,
    kill_worker_at,
    fault_at,
    manual_reaper,
    names_on_node,
    event_kinds,
    reload_task,
    reload,
    cast,
    node,
    step,
    after,
):
    node.delete_image("default", machine_spec.build_node_image(cast.image).name)
    instance, task = request_deploy()
    kill_worker_at(task, step, after=after)
    assert reload_task(task).status == "running"
    manual_reaper.advance(60)
    machine_names = []
    with fault_at("create_disk", then=lambda: machine_names.append(names_on_node()[0])):
        run_tasks()
    assert machine_names == [set()]  # a disk is never replaced under a machine that may run
    row = reload_task(task)
    assert (row.status, row.attempt, row.rollback_steps) == ("completed", 2, [])
    assert names_on_node() == ({instance.name}, {f"{instance.name}-0.qcow2", f"{instance.name}-seed.iso"})
    assert reload(instance).state == "running"
    assert event_kinds(instance) == ["instance.created", "instance.deployed"]
    assigned_ips = session.scalars(select(Address.ip).where(Address.interface_id.is_not(None))).all()
    assert sorted(assigned_ips) == sorted(address.ip for address in reload(instance).addresses)


def test_worker_without_lease_changes_nothing(
    request_deploy, fault_at, manual_reaper, names_on_node, reload_task, reload, node
):
    """It hangs in a node call while another worker takes over and completes its task; then its own call fails."""
    instance, task = request_deploy()
    statuses = []

    def lose_lease():
        if not statuses:
            statuses.append(reload_task(task).status)
            manual_reaper.advance(60)
            run_task(task)
            statuses.append(reload_task(task).status)
            node.fault("create_disk", "refuse", 1)

    with fault_at("create_disk", then=lose_lease):
        run_task(task)
    assert statuses == ["running", "completed"]
    assert (reload_task(task).status, reload_task(task).attempt, reload_task(task).error) == ("completed", 2, None)
    assert reload(instance).state == "running"
    assert names_on_node() == ({instance.name}, {f"{instance.name}-0.qcow2", f"{instance.name}-seed.iso"})


def test_worker_without_lease_does_not_roll_back(
    request_deploy, fault_at, manual_reaper, names_on_node, reload_task, node, cast
):
    """Its call fails while another worker runs the task, which now owns the rollback steps."""
    instance, task = request_deploy()
    disk = machine_spec.build_disk(instance.disks[0])

    def lose_lease():
        manual_reaper.advance(60)
        task_context = runner.TaskContext(claiming.claim(task.id, "the other"), "the other")
        task_context.undo("delete_disk", disk.pool, disk.name)
        node.create_disk(disk, machine_spec.build_node_image(cast.image))
        node.fault("define", "refuse", 1)

    with fault_at("define", then=lose_lease):
        run_task(task)
    assert node.faults() == []
    assert (reload_task(task).status, reload_task(task).worker) == ("running", "the other")
    assert disk.name in names_on_node()[1]


def test_database_outage_is_handled_as_lost_worker(
    request_deploy, run_tasks, fault_at, manual_reaper, reload_task, reload, event_kinds
):
    instance, task = request_deploy()

    def raise_database_error():
        raise OperationalError("update tasks", {}, Exception("the server closed the connection"))

    with fault_at("define", then=raise_database_error):
        run_task(task)
    assert (reload_task(task).status, reload_task(task).error) == ("running", None)
    manual_reaper.advance(60)
    run_tasks()
    assert reload_task(task).status == "completed"
    assert event_kinds(instance) == ["instance.created", "instance.deployed"]


def test_interrupted_restart_fails_and_is_not_repeated(
    running_instance, request_action, kill_worker_at, manual_reaper, run_tasks, fault_at, reload_task
):
    task = request_action(running_instance, "restart")
    kill_worker_at(task, "restart")
    manual_reaper.advance(60)
    restarts = []
    with fault_at("restart", then=lambda: restarts.append(1)):
        run_tasks()
    assert restarts == []
    assert reload_task(task).status == "failed"
    assert "not known" in reload_task(task).error


# --- failures


def test_handler_exception_fails_task(request_deploy, run_tasks, monkeypatch, reload_task, names_on_node):
    _, task = request_deploy()
    monkeypatch.setattr(instance_tasks, "build_spec", lambda *_: 1 / 0)
    run_tasks()
    failed_task = reload_task(task)
    assert (failed_task.status, failed_task.error) == ("failed", "An internal error occurred.")
    assert "ZeroDivisionError" in failed_task.error_detail
    assert names_on_node() == (set(), set())


def test_failure_handler_exception_fails_task(request_deploy, run_tasks, node, monkeypatch, reload_task):
    _, task = request_deploy()
    node.fault("start", "refuse", 1)
    task_type = TASK_TYPES["instance_deploy"]
    monkeypatch.setitem(TASK_TYPES, "instance_deploy", TaskType(task_type.body, lambda *_: 1 / 0, ()))
    run_tasks()
    assert (reload_task(task).status, reload_task(task).error) == ("failed", "The hypervisor refused this.")


def test_unknown_rollback_step_remains_and_task_fails(request_deploy, run_tasks, node, reload_task, fault_at):
    _, task = request_deploy()

    def add_unknown_step():
        reload_task(task).rollback_steps = [["unmake", "x"], *task.rollback_steps]
        session.commit()

    node.fault("start", "refuse", 1)
    with fault_at("define", then=add_unknown_step):
        run_tasks()
    assert reload_task(task).status == "failed"
    assert (reload_task(task).rollback_steps, reload_task(task).rollback_pending) == ([["unmake", "x"]], True)


def test_next_deploy_runs_remaining_rollback_of_previous_task(
    request_deploy, run_tasks, node, names_on_node, reload_task, reload
):
    """The node fails during the deploy and recovers before the reaper runs."""
    instance, task = request_deploy()
    node.fault("start", "refuse")
    node.fault("delete", "refuse")
    run_tasks()
    assert names_on_node()[0] == {instance.name}
    assert reload_task(task).rollback_pending
    node.clear()
    _, second = request_deploy(reload(instance))
    node.fault("has_image", "refuse", 1)
    run_tasks()
    assert reload_task(second).status == "failed"
    assert names_on_node() == (set(), set())
    assert not reload_task(task).rollback_pending
    assert not reload_task(second).rollback_pending


def test_concurrent_row_change_is_not_overwritten(request_deploy, run_tasks, fault_at, reload):
    instance, _ = request_deploy()
    rename = text("update instances set display_name = 'renamed' where id = :id")
    with fault_at("define", then=lambda: (session.execute(rename, {"id": instance.id}), session.commit())):
        run_tasks()
    assert (reload(instance).display_name, reload(instance).state) == ("renamed", "running")


def test_deploy_of_removed_image_fails(request_deploy, run_tasks, cast, reload_task):
    _, task = request_deploy()
    session.delete(session.merge(cast.image))
    session.commit()
    run_tasks()
    assert "Choose another one" in reload_task(task).error


# --- power


def test_start_waits_for_running_stop(running_instance, request_action, run_tasks, fault_at, node, reload):
    stop = request_action(running_instance, "stop")
    statuses = []

    def request_start():
        later = request_action(reload(running_instance), "start")
        run_task(later)
        statuses.append(later.status)

    with fault_at("shutdown", then=request_start):
        run_task(stop)
    assert (statuses, reload(running_instance).state) == (["queued"], "stopped")
    run_tasks()
    assert [machine.power for machine in node.machines()] == [Power.on]
    assert reload(running_instance).state == "running"


def test_shutdown_completes_on_power_event(
    running_instance, request_action, run_tasks, node, fault_at, monkeypatch, event_kinds, reload
):
    """The guest is slow. Another process records the event; the node is not polled repeatedly."""
    node.set_guest(running_instance.id, heeds_shutdown=False)
    task, polls = request_action(running_instance, "shutdown"), []

    def power_off_with_event():
        node.guest_powers_off(running_instance.id)
        node_sync.on_power_event(running_instance.hypervisor_id, running_instance.id, Power.off)

    sleep_effects = iter([None, None, power_off_with_event])
    monkeypatch.setattr(instance_tasks.time, "sleep", lambda _: (next(sleep_effects) or str)())
    with fault_at("power", then=lambda: polls.append(1)):
        run_tasks()
    assert (task.status, reload(running_instance).state) == ("completed", "stopped")
    assert len(polls) == 2  # by the task and by the event handler
    assert event_kinds(running_instance)[-1] == "instance.status_changed"
    assert event_kinds(running_instance).count("instance.status_changed") == 1


def test_shutdown_completes_only_when_its_row_is_off(
    running_instance, request_action, run_tasks, node, fault_at, monkeypatch, reload
):
    """A reconciliation reads the old power during the task's own query, so what the query read is not recorded."""
    monkeypatch.setattr(instance_tasks, "TASK_WAIT_INTERVAL_SECONDS", 0.01)
    node.set_guest(running_instance.id, heeds_shutdown=False)
    task, polls = request_action(running_instance, "shutdown"), []

    def report_on_while_guest_powers_off():
        if not polls:
            [row] = state_reports.lock_instances(running_instance.id)
            assert state_reports.report_power(row, "on", at=clock.now())
            session.commit()
            node.guest_powers_off(running_instance.id)
        polls.append(1)

    with fault_at("power", then=report_on_while_guest_powers_off):
        run_tasks()
    assert (task.status, reload(running_instance).state) == ("completed", "stopped")
    assert len(polls) == 2


def test_ignored_shutdown_fails_and_stop_powers_off(
    running_instance, request_action, run_tasks, node, monkeypatch, reload_task, reload
):
    monkeypatch.setattr(instance_tasks, "SHUTDOWN_TIMEOUT_SECONDS", 0.01)
    node.set_guest(running_instance.id, heeds_shutdown=False)
    task = request_action(running_instance, "shutdown")
    run_tasks()
    assert reload_task(task).status == "failed"
    assert "Power it off" in reload_task(task).error
    assert reload(running_instance).state == "running"
    task = request_action(running_instance, "stop")
    run_tasks()
    assert reload_task(task).status == "completed"
    assert reload(running_instance).state == "stopped"


@pytest.mark.parametrize("action", ["shutdown", "stop"])
def test_shutdown_request_is_repeated_for_booting_guest(
    running_instance, request_action, run_tasks, node, fault_at, monkeypatch, reload_task, reload, action
):
    """It ignores the power button while it boots, and a power-off could lose data."""
    monkeypatch.setattr(instance_tasks, "SHUTDOWN_REMINDER_SECONDS", 0)
    node.set_guest(running_instance.id, heeds_shutdown=False)
    task, requests, power_offs = request_action(running_instance, action), [], []

    def receive_request():
        requests.append(1)
        node.set_guest(running_instance.id, heeds_shutdown=len(requests) > 1)

    with fault_at("shutdown", then=receive_request), fault_at("power_off", then=lambda: power_offs.append(1)):
        run_tasks()
    assert (reload_task(task).status, reload(running_instance).state) == ("completed", "stopped")
    assert len(requests) > 1
    assert power_offs == []


def test_waiting_shutdown_can_be_cancelled(running_instance, request_action, run_tasks, node, monkeypatch, reload_task):
    node.set_guest(running_instance.id, heeds_shutdown=False)
    task = request_action(running_instance, "shutdown")
    monkeypatch.setattr(instance_tasks.time, "sleep", lambda _: (tasks.cancel(reload_task(task)), session.commit()))
    run_tasks()
    assert reload_task(task).status == "cancelled"


# --- images


def test_image_is_copied_to_node_by_one_task_at_a_time(
    request_deploy, run_tasks, cast, node, monkeypatch, fault_at, reload_task
):
    node.delete_image("default", machine_spec.build_node_image(cast.image).name)
    (_, first), (_, second) = request_deploy(), request_deploy()
    stages, copies = [], []

    def finish_first(_):
        stages.append(reload_task(second).stage)
        runner.finish(runner.TaskContext(first, "first"), "completed", stage="Done")

    assert claiming.claim(first.id, "first")
    copying = message("Copying the image {image:.100}", image=cast.image.label)
    runner.TaskContext(first, "first").step_exclusive(copying, 10)
    monkeypatch.setattr(runner.time, "sleep", finish_first)
    with fault_at("put_image", then=lambda: copies.append(reload_task(second).stage)):
        run_task(second)
    assert stages == [f"Waiting for another task: {copying}"]
    assert copies == [copying]
    assert reload_task(second).status == "completed"


def test_image_is_copied_again_to_reinstalled_node(request_deploy, run_tasks, cast, node, reload):
    request_deploy()
    run_tasks()
    node.delete_disk("default", machine_spec.build_node_image(cast.image).name)
    instance, _ = request_deploy()
    run_tasks()
    assert reload(instance).state == "running"


def test_no_task_is_open_after_deploys(request_deploy, run_tasks):
    for _ in range(3):
        request_deploy()
    run_tasks()
    assert session.scalar(select(Task.id).where(Task.status.in_(OPEN_STATUSES))) is None
    assert session.scalar(select(Instance.id).where(~Instance.deployed)) is None


def test_task_progress_never_decreases(running_instance, request_action, run_tasks, monkeypatch):
    """Several kinds share a step that sets its own progress; a lower value must not replace a higher one."""
    progress_values = []
    update = runner.TaskContext.update
    monkeypatch.setattr(
        runner.TaskContext,
        "update",
        lambda self, **values: progress_values.append(values["progress"]) or update(self, **values),
    )
    running_instance.started_ram = running_instance.ram + 1  # a plan change is pending until the next start
    session.commit()
    task = request_action(running_instance, "restart")
    run_tasks()
    assert (task.status, task.progress) == ("completed", 100)
    assert len(progress_values) > 2
    assert progress_values == sorted(progress_values)
