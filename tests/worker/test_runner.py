"""The engine, in this process: claims, locks, steps, undo, cancellation, and workers that die or wake up too late."""

import itertools

import pytest
from sqlalchemy import select, text
from sqlalchemy.exc import OperationalError

from panel.core import jobs
from panel.core.db import session
from panel.core.messages import message
from panel.models import Address, Instance, Task, TaskLog
from panel.models.tasks import OPEN_STATUSES
from panel.services import tasks
from tests.conftest import queued_calls
from worker.engine import claiming, runner
from worker.engine.registry import TASK_TYPES, TaskType
from worker.nodes.base import Power
from worker.sync import node_sync
from worker.tasks import instances as bodies
from worker.tasks import machine_spec

worker_names = (f"worker {number}" for number in itertools.count())


def run_row(row):
    runner.run(row.id, next(worker_names))


def test_a_deploy_leaves_a_true_record(order, run_tasks, node, names_on_node, event_kinds, reload_task, reload):
    instance, asked = order()
    assert (asked.status, reload(instance).state) == ("queued", "pending")
    run_tasks()
    done = reload_task(asked)
    assert (done.status, done.stage, done.progress, done.attempt) == ("completed", "Done", 100, 1)
    assert (done.error, done.secret, done.rollback_steps, done.rollback_pending, done.worker) == (
        None,
        None,
        [],
        False,
        None,
    )
    assert done.started_at <= done.finished_at
    logs = session.scalars(select(TaskLog.message).where(TaskLog.task_id == asked.id).order_by(TaskLog.id)).all()
    assert logs[0] == "Preparing"
    assert logs[-3:] == ["Writing the first-boot configuration", "Defining the machine", "Starting"]
    assert reload(instance).state == "running"
    assert names_on_node() == ({instance.name}, {f"{instance.name}-0.qcow2", f"{instance.name}-seed.iso"})
    assert event_kinds(instance) == ["instance.created", "instance.deployed"]


def test_a_second_notification_of_a_finished_task_does_nothing(order, run_tasks, node, fault_at, event_kinds):
    instance, asked = order()
    starts = []
    with fault_at(
        "start", then=lambda: (starts.append(1), run_row(asked))
    ):  # the bell rings again while the work goes on
        run_row(asked)
    run_row(asked)
    assert len(starts) == 1
    assert event_kinds(instance).count("instance.deployed") == 1
    assert asked.attempt == 1


LOCKS = ("exclusive", "final", "storage", "light")
COMPATIBLE_LOCKS = {("storage", "light"), ("light", "storage"), ("light", "light")}
REFUSED_LOCKS = {(lock, lock) for lock in claiming.EXCLUSIVE_LOCKS}
"""The database takes no second row of these."""


@pytest.mark.parametrize(("running", "asked"), sorted(set(itertools.product(LOCKS, LOCKS)) - REFUSED_LOCKS))
def test_task_locks_decide_what_runs_together(cast, running, asked):
    """Which tasks of one resource run together."""
    instance = cast.instance()
    first, second = (add_task(instance, lock=lock) for lock in (running, asked))
    assert claiming.claim(first.id, "a") is first
    assert (claiming.claim(second.id, "b") is not None) == ((running, asked) in COMPATIBLE_LOCKS)
    assert second.id not in session.scalars(claiming.select_runnable()).all()


def add_task(instance, *, kind="instance_poweroff", lock="light", **values):
    made = jobs.enqueue(
        kind, "instance", instance, lock=lock, actor="test", hypervisor_id=instance.hypervisor_id, **values
    )
    session.commit()
    return made


def test_a_node_carries_so_many_tasks_and_light_ones_beside(cast):
    cast.node.max_tasks = 2
    heavy = [add_task(cast.instance(), lock="storage") for _ in range(3)]
    assert [claiming.claim(row.id, row.id) is not None for row in heavy] == [True, True, False]
    assert heavy[2].id not in session.scalars(claiming.select_runnable()).all()
    light = add_task(cast.instance())
    assert claiming.claim(light.id, light.id) is light
    runner.finish(runner.TaskContext(heavy[0], heavy[0].id), "completed", stage="Done")
    queued_calls.clear()
    claiming.notify_waiting(heavy[0])
    assert ("worker.engine.runner.run", (heavy[2].id,)) in queued_calls
    assert claiming.claim(heavy[2].id, "x") is heavy[2]


def test_capacity_of_a_removed_node_stops_no_claim(cast):
    assert not claiming.is_at_capacity("removed")


def test_a_task_of_a_kind_that_is_not_known_waits_for_a_newer_worker(cast, reload_task):
    asked = add_task(cast.instance(), kind="instance_teleport")
    run_row(asked)
    assert reload_task(asked).status == "queued"


# --- cancelling


def test_a_waiting_task_is_cancelled_although_its_node_is_full(cast, order, run_tasks, reload_task, reload):
    cast.node.max_tasks = 0
    instance, asked = order()
    run_tasks()
    assert reload_task(asked).status == "queued"
    tasks.cancel(asked)
    session.commit()
    run_tasks()
    assert (reload_task(asked).status, reload_task(asked).error) == ("cancelled", "The task was cancelled.")
    assert reload(instance).state == "pending"
    assert reload(instance).last_error == "The task was cancelled."


@pytest.mark.parametrize("step", ["put_image", "create_disk", "create_seed", "define"])
def test_a_running_task_stops_at_its_next_step_and_takes_back_what_it_began(
    order, run_tasks, fault_at, names_on_node, reload_task, reload, step, cast, node
):
    node.delete_image("default", machine_spec.node_image(cast.image).name)
    instance, asked = order()
    with fault_at(step, then=lambda: (tasks.cancel(reload_task(asked)), session.commit()), after=True):
        run_tasks()
    assert reload_task(asked).status == "cancelled"
    assert names_on_node() == (set(), set())
    assert reload(instance).state == "pending"
    _, asked = order(reload(instance))
    run_tasks()
    assert reload(instance).state == "running"


def test_a_transfer_is_stopped_in_the_middle(order, run_tasks, fault_at, reload_task, cast, node):
    image = machine_spec.node_image(cast.image)
    node.delete_image("default", image.name)
    _, asked = order()
    with fault_at("put_image", then=lambda: (tasks.cancel(reload_task(asked)), session.commit())):
        run_tasks()
    assert reload_task(asked).status == "cancelled"
    assert reload_task(asked).bytes_total == image.size
    assert not node.has_image("default", image)


def test_a_request_that_comes_too_late_changes_nothing(order, run_tasks, fault_at, reload_task, reload):
    instance, asked = order()
    with fault_at("start", then=lambda: (tasks.cancel(reload_task(asked)), session.commit()), after=True):
        run_tasks()
    assert reload_task(asked).status == "completed"
    assert reload(instance).state == "running"


@pytest.mark.parametrize("step", ["has_image", "create_disk", "create_seed", "define", "start"])
def test_a_destroy_stops_the_deploy_and_follows_it(
    order, run_tasks, fault_at, names_on_node, request_action, reload_task, reload, step
):
    instance, asked = order()
    destroys, waited = [], []

    def destroy():
        destroys.append(request_action(reload(instance), "destroy"))
        run_row(destroys[0])  # a worker hears the bell at once
        waited.append(reload_task(destroys[0]).status)

    with fault_at(step, then=destroy):
        run_tasks()
    assert waited == ["queued"]
    assert reload_task(asked).status == ("completed" if step == "start" else "cancelled")
    assert reload_task(destroys[0]).status == "completed"
    assert names_on_node() == (set(), set())
    assert reload(instance) is None
    assert session.scalar(select(Address.id).where(Address.interface_id.is_not(None))) is None


def test_a_destroy_of_a_waiting_deploy(order, run_tasks, request_action, reload, names_on_node):
    instance, _ = order()
    request_action(instance, "destroy")
    run_tasks()
    assert reload(instance) is None
    assert names_on_node() == (set(), set())
    assert set(session.scalars(select(Task.status).where(Task.resource_id == instance.id))) == {
        "cancelled",
        "completed",
    }


# --- workers that die, or wake up too late


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("step", ["has_image", "put_image", "create_disk", "create_seed", "define", "start"])
def test_a_task_of_a_killed_worker_runs_to_completion_once(
    order,
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
    node.delete_image("default", machine_spec.node_image(cast.image).name)
    instance, asked = order()
    kill_worker_at(asked, step, after=after)
    assert reload_task(asked).status == "running"
    manual_reaper.advance(60)
    there = []
    with fault_at("create_disk", then=lambda: there.append(names_on_node()[0])):
        run_tasks()
    assert there == [set()]  # no disk is replaced below a machine that may run
    done = reload_task(asked)
    assert (done.status, done.attempt, done.rollback_steps) == ("completed", 2, [])
    assert names_on_node() == ({instance.name}, {f"{instance.name}-0.qcow2", f"{instance.name}-seed.iso"})
    assert reload(instance).state == "running"
    assert event_kinds(instance) == ["instance.created", "instance.deployed"]
    held = session.scalars(select(Address.ip).where(Address.interface_id.is_not(None))).all()
    assert sorted(held) == sorted(address.ip for address in reload(instance).addresses)


def test_a_worker_that_lost_its_lease_changes_nothing_more(
    order, fault_at, manual_reaper, names_on_node, reload_task, reload, node
):
    """It hangs in a call while another worker takes its task and finishes it; then its own call fails."""
    instance, asked = order()
    statuses = []

    def hang():
        if not statuses:
            statuses.append(reload_task(asked).status)
            manual_reaper.advance(60)
            run_row(asked)
            statuses.append(reload_task(asked).status)
            node.fault("create_disk", "refuse", 1)

    with fault_at("create_disk", then=hang):
        run_row(asked)
    assert statuses == ["running", "completed"]
    assert (reload_task(asked).status, reload_task(asked).attempt, reload_task(asked).error) == ("completed", 2, None)
    assert reload(instance).state == "running"
    assert names_on_node() == ({instance.name}, {f"{instance.name}-0.qcow2", f"{instance.name}-seed.iso"})


def test_a_worker_that_lost_its_lease_rolls_back_nothing(
    order, fault_at, manual_reaper, names_on_node, reload_task, node, cast
):
    """Its call fails while the other worker is in the middle: what is to be undone is the other's by now."""
    instance, asked = order()
    disk = machine_spec.build_disk(instance.disks[0])

    def hang():
        manual_reaper.advance(60)
        work = runner.TaskContext(claiming.claim(asked.id, "the other"), "the other")
        work.undo("delete_disk", disk.pool, disk.name)
        node.create_disk(disk, machine_spec.node_image(cast.image))
        node.fault("define", "refuse", 1)

    with fault_at("define", then=hang):
        run_row(asked)
    assert node.faults() == []
    assert (reload_task(asked).status, reload_task(asked).worker) == ("running", "the other")
    assert disk.name in names_on_node()[1]


def test_a_database_outage_is_handled_as_a_lost_worker(
    order, run_tasks, fault_at, manual_reaper, reload_task, reload, event_kinds
):
    instance, asked = order()

    def away():
        raise OperationalError("update tasks", {}, Exception("the server closed the connection"))

    with fault_at("define", then=away):
        run_row(asked)
    assert (reload_task(asked).status, reload_task(asked).error) == ("running", None)
    manual_reaper.advance(60)
    run_tasks()
    assert reload_task(asked).status == "completed"
    assert event_kinds(instance) == ["instance.created", "instance.deployed"]


def test_a_restart_that_was_cut_off_is_not_done_again(
    machine, request_action, kill_worker_at, manual_reaper, run_tasks, fault_at, reload_task
):
    asked = request_action(machine, "restart")
    kill_worker_at(asked, "restart")
    manual_reaper.advance(60)
    restarts = []
    with fault_at("restart", then=lambda: restarts.append(1)):
        run_tasks()
    assert restarts == []
    assert reload_task(asked).status == "failed"
    assert "not known" in reload_task(asked).error


# --- endings


def test_a_fault_in_the_body_ends_the_task(order, run_tasks, monkeypatch, reload_task, names_on_node):
    _, asked = order()
    monkeypatch.setattr(bodies, "build_spec", lambda *_: 1 / 0)
    run_tasks()
    ended = reload_task(asked)
    assert (ended.status, ended.error) == ("failed", "An internal error occurred.")
    assert "ZeroDivisionError" in ended.error_detail
    assert names_on_node() == (set(), set())


def test_a_fault_in_the_ending_ends_the_task(order, run_tasks, node, monkeypatch, reload_task):
    _, asked = order()
    node.fault("start", "refuse", 1)
    kind = TASK_TYPES["instance_deploy"]
    monkeypatch.setitem(TASK_TYPES, "instance_deploy", TaskType(kind.body, lambda *_: 1 / 0, ()))
    run_tasks()
    assert (reload_task(asked).status, reload_task(asked).error) == ("failed", "The hypervisor refused this.")


def test_an_undo_step_that_nobody_knows_stays_and_the_task_ends(order, run_tasks, node, reload_task, fault_at):
    _, asked = order()

    def write():
        reload_task(asked).rollback_steps = [["unmake", "x"], *asked.rollback_steps]
        session.commit()

    node.fault("start", "refuse", 1)
    with fault_at("define", then=write):
        run_tasks()
    assert reload_task(asked).status == "failed"
    assert (reload_task(asked).rollback_steps, reload_task(asked).rollback_pending) == ([["unmake", "x"]], True)


def test_the_next_try_takes_back_what_the_last_one_left(order, run_tasks, node, names_on_node, reload_task, reload):
    """The node breaks while the machine is made, and is back before the sweep came."""
    instance, asked = order()
    node.fault("start", "refuse")
    node.fault("delete", "refuse")
    run_tasks()
    assert names_on_node()[0] == {instance.name}
    assert reload_task(asked).rollback_pending
    node.clear()
    _, second = order(reload(instance))
    node.fault("has_image", "refuse", 1)
    run_tasks()
    assert reload_task(second).status == "failed"
    assert names_on_node() == (set(), set())
    assert not reload_task(asked).rollback_pending
    assert not reload_task(second).rollback_pending


def test_what_others_change_meanwhile_stays_changed(order, run_tasks, fault_at, reload):
    instance, _ = order()
    rename = text("update instances set display_name = 'renamed' where id = :id")
    with fault_at("define", then=lambda: (session.execute(rename, {"id": instance.id}), session.commit())):
        run_tasks()
    assert (reload(instance).display_name, reload(instance).state) == ("renamed", "running")


def test_an_image_that_was_removed_meanwhile(order, run_tasks, cast, reload_task):
    _, asked = order()
    session.delete(session.merge(cast.image))
    session.commit()
    run_tasks()
    assert "Choose another one" in reload_task(asked).error


# --- power


def test_a_start_waits_for_the_stop_that_came_before(machine, request_action, run_tasks, fault_at, node, reload):
    stop = request_action(machine, "stop")
    waited = []

    def start():
        later = request_action(reload(machine), "start")
        run_row(later)
        waited.append(later.status)

    with fault_at("shutdown", then=start):
        run_row(stop)
    assert (waited, reload(machine).state) == (["queued"], "stopped")
    run_tasks()
    assert [seen.power for seen in node.machines()] == [Power.on]
    assert reload(machine).state == "running"


def test_a_shutdown_ends_when_the_node_tells_of_it(
    machine, request_action, run_tasks, node, fault_at, monkeypatch, event_kinds, reload
):
    """The guest takes its time. The event is written by another process; the node is not asked again and again."""
    node.set_guest(machine.id, heeds_shutdown=False)
    asked, looks = request_action(machine, "shutdown"), []

    def off():
        node.guest_powers_off(machine.id)
        node_sync.on_power_event(machine.hypervisor_id, machine.id, Power.off)

    slept = iter([None, None, off])
    monkeypatch.setattr(bodies.time, "sleep", lambda _: (next(slept) or str)())
    with fault_at("power", then=lambda: looks.append(1)):
        run_tasks()
    assert (asked.status, reload(machine).state) == ("completed", "stopped")
    assert len(looks) == 2  # the task, and the one who heard the event
    assert event_kinds(machine)[-1] == "instance.status_changed"
    assert event_kinds(machine).count("instance.status_changed") == 1


def test_a_guest_that_does_not_obey(machine, request_action, run_tasks, node, monkeypatch, reload_task, reload):
    monkeypatch.setattr(bodies, "SHUTDOWN_TIMEOUT_SECONDS", 0.01)
    node.set_guest(machine.id, heeds_shutdown=False)
    asked = request_action(machine, "shutdown")
    run_tasks()
    assert reload_task(asked).status == "failed"
    assert "Power it off" in reload_task(asked).error
    assert reload(machine).state == "running"
    asked = request_action(machine, "stop")
    run_tasks()
    assert reload_task(asked).status == "completed"
    assert reload(machine).state == "stopped"


@pytest.mark.parametrize("action", ["shutdown", "stop"])
def test_a_guest_that_was_still_starting_is_asked_again(
    machine, request_action, run_tasks, node, fault_at, monkeypatch, reload_task, reload, action
):
    """It does not hear the power button yet, and pulling the plug would cost it what it is writing."""
    monkeypatch.setattr(bodies, "SHUTDOWN_REMINDER_SECONDS", 0)
    node.set_guest(machine.id, heeds_shutdown=False)
    asked, heard, plugs = request_action(machine, action), [], []

    def started():
        heard.append(1)
        node.set_guest(machine.id, heeds_shutdown=len(heard) > 1)

    with fault_at("shutdown", then=started), fault_at("power_off", then=lambda: plugs.append(1)):
        run_tasks()
    assert (reload_task(asked).status, reload(machine).state) == ("completed", "stopped")
    assert len(heard) > 1
    assert plugs == []


def test_a_task_that_waits_can_be_cancelled(machine, request_action, run_tasks, node, monkeypatch, reload_task):
    node.set_guest(machine.id, heeds_shutdown=False)
    asked = request_action(machine, "shutdown")
    monkeypatch.setattr(bodies.time, "sleep", lambda _: (tasks.cancel(reload_task(asked)), session.commit()))
    run_tasks()
    assert reload_task(asked).status == "cancelled"


# --- images


def test_one_task_at_a_time_copies_an_image_to_a_node(order, run_tasks, cast, node, monkeypatch, fault_at, reload_task):
    node.delete_image("default", machine_spec.node_image(cast.image).name)
    (_, first), (_, second) = order(), order()
    stages, copies = [], []

    def meanwhile(_):
        stages.append(reload_task(second).stage)
        runner.finish(runner.TaskContext(first, "first"), "completed", stage="Done")

    assert claiming.claim(first.id, "first")
    copying = message("Copying the image {image:.100}", image=cast.image.label)
    runner.TaskContext(first, "first").step_exclusive(copying, 10)
    monkeypatch.setattr(runner.time, "sleep", meanwhile)
    with fault_at("put_image", then=lambda: copies.append(reload_task(second).stage)):
        run_row(second)
    assert stages == [f"Waiting for another task: {copying}"]
    assert copies == [copying]
    assert reload_task(second).status == "completed"


def test_a_node_that_was_reinstalled_gets_the_image_again(order, run_tasks, cast, node, reload):
    order()
    run_tasks()
    node.delete_disk("default", machine_spec.node_image(cast.image).name)
    instance, _ = order()
    run_tasks()
    assert reload(instance).state == "running"


def test_nothing_is_open_when_all_is_done(order, run_tasks):
    for _ in range(3):
        order()
    run_tasks()
    assert session.scalar(select(Task.id).where(Task.status.in_(OPEN_STATUSES))) is None
    assert session.scalar(select(Instance.id).where(~Instance.deployed)) is None


def test_progress_never_goes_back(machine, request_action, run_tasks, monkeypatch):
    """A step that several kinds share begins at a number of its own: what people saw before stays the least."""
    seen = []
    say = runner.TaskContext.update
    monkeypatch.setattr(
        runner.TaskContext, "update", lambda self, **new: seen.append(new["progress"]) or say(self, **new)
    )
    machine.started_ram = machine.ram + 1  # another plan waits for the next start
    session.commit()
    done = request_action(machine, "restart")
    run_tasks()
    assert (done.status, done.progress) == ("completed", 100)
    assert len(seen) > 2
    assert seen == sorted(seen)
