"""The engine, in this process: claims, locks, steps, undo, cancellation, and workers that die or wake up too late."""

import itertools

import pytest
from sqlalchemy import select, text
from sqlalchemy.exc import OperationalError

from panel.core import jobs
from panel.core.db import session
from panel.models import Address, Instance, Task, TaskLog
from panel.models.tasks import OPEN
from panel.services import tasks
from tests.conftest import bells
from worker.engine import claiming, runner
from worker.engine.registry import KINDS, Kind
from worker.nodes.base import Power
from worker.sync import node_sync
from worker.tasks import instances as bodies
from worker.tasks import machine_spec

names = (f"worker {number}" for number in itertools.count())


def run(row):
    runner.run(row.id, next(names))


def test_a_deploy_leaves_a_true_record(order, work, node, on_node, kinds, row, again):
    instance, asked = order()
    assert (asked.status, again(instance).state) == ("queued", "pending")
    work()
    done = row(asked)
    assert (done.status, done.stage, done.progress, done.attempt) == ("completed", "Done", 100, 1)
    assert (done.error, done.secret, done.undo, done.undo_left, done.worker) == (None, None, [], False, None)
    assert done.started_at <= done.finished_at
    logs = session.scalars(select(TaskLog.message).where(TaskLog.task_id == asked.id).order_by(TaskLog.id)).all()
    assert logs[0] == "Preparing"
    assert logs[-3:] == ["Writing the first-boot configuration", "Defining the machine", "Starting"]
    assert again(instance).state == "running"
    assert on_node() == ({instance.name}, {f"{instance.name}-0.qcow2", f"{instance.name}-seed.iso"})
    assert kinds(instance) == ["instance.created", "instance.deployed"]


def test_a_second_bell_does_nothing(order, work, node, at, kinds):
    instance, asked = order()
    starts = []
    with at("start", then=lambda: (starts.append(1), run(asked))):  # the bell rings again while the work goes on
        run(asked)
    run(asked)
    assert len(starts) == 1
    assert kinds(instance).count("instance.deployed") == 1
    assert asked.attempt == 1


LOCKS = ("exclusive", "final", "storage", "light")
TOGETHER = {("storage", "light"), ("light", "storage"), ("light", "light")}
REFUSED = {(lock, lock) for lock in claiming.ALONE}
"""The database takes no second row of these."""


@pytest.mark.parametrize(("running", "asked"), sorted(set(itertools.product(LOCKS, LOCKS)) - REFUSED))
def test_locks(cast, running, asked):
    """Which tasks of one resource run together."""
    instance = cast.instance()
    first, second = (add(instance, lock=lock) for lock in (running, asked))
    assert claiming.claim(first.id, "a") is first
    assert (claiming.claim(second.id, "b") is not None) == ((running, asked) in TOGETHER)
    assert second.id not in session.scalars(claiming.ready()).all()


def add(instance, *, kind="instance_poweroff", lock="light", **values):
    made = jobs.enqueue(
        kind, "instance", instance, lock=lock, actor="test", hypervisor_id=instance.hypervisor_id, **values
    )
    session.commit()
    return made


def test_a_node_carries_so_many_tasks_and_light_ones_beside(cast):
    cast.node.max_tasks = 2
    heavy = [add(cast.instance(), lock="storage") for _ in range(3)]
    assert [claiming.claim(row.id, row.id) is not None for row in heavy] == [True, True, False]
    assert heavy[2].id not in session.scalars(claiming.ready()).all()
    light = add(cast.instance())
    assert claiming.claim(light.id, light.id) is light
    runner.end(runner.Work(heavy[0], heavy[0].id), "completed", stage="Done")
    bells.clear()
    claiming.ring_waiting(heavy[0])
    assert ("worker.engine.runner.run", (heavy[2].id,)) in bells
    assert claiming.claim(heavy[2].id, "x") is heavy[2]


def test_a_task_of_a_kind_that_is_not_known_waits_for_a_newer_worker(cast, row):
    asked = add(cast.instance(), kind="instance_teleport")
    run(asked)
    assert row(asked).status == "queued"


# --- cancelling


def test_a_waiting_task_is_cancelled_although_its_node_is_full(cast, order, work, row, again):
    cast.node.max_tasks = 0
    instance, asked = order()
    work()
    assert row(asked).status == "queued"
    tasks.cancel(asked)
    session.commit()
    work()
    assert (row(asked).status, row(asked).error) == ("cancelled", "It was cancelled.")
    assert again(instance).state == "pending"
    assert again(instance).last_error == "It was cancelled."


@pytest.mark.parametrize("step", ["put_image", "create_disk", "write_seed", "define"])
def test_a_running_task_stops_at_its_next_step_and_takes_back_what_it_began(
    order, work, at, on_node, row, again, step, cast, node
):
    node.delete_image("default", machine_spec.on_node(cast.image).name)
    instance, asked = order()
    with at(step, then=lambda: (tasks.cancel(row(asked)), session.commit()), after=True):
        work()
    assert row(asked).status == "cancelled"
    assert on_node() == (set(), set())
    assert again(instance).state == "pending"
    _, asked = order(again(instance))
    work()
    assert again(instance).state == "running"


def test_a_transfer_is_stopped_in_the_middle(order, work, at, row, cast, node):
    image = machine_spec.on_node(cast.image)
    node.delete_image("default", image.name)
    _, asked = order()
    with at("put_image", then=lambda: (tasks.cancel(row(asked)), session.commit())):
        work()
    assert row(asked).status == "cancelled"
    assert row(asked).bytes_total == image.size
    assert not node.has_image("default", image)


def test_a_request_that_comes_too_late_changes_nothing(order, work, at, row, again):
    instance, asked = order()
    with at("start", then=lambda: (tasks.cancel(row(asked)), session.commit()), after=True):
        work()
    assert row(asked).status == "completed"
    assert again(instance).state == "running"


@pytest.mark.parametrize("step", ["has_image", "create_disk", "write_seed", "define", "start"])
def test_a_destroy_stops_the_deploy_and_follows_it(order, work, at, on_node, act, row, again, step):
    instance, asked = order()
    destroys, waited = [], []

    def destroy():
        destroys.append(act(again(instance), "destroy"))
        run(destroys[0])  # a worker hears the bell at once
        waited.append(row(destroys[0]).status)

    with at(step, then=destroy):
        work()
    assert waited == ["queued"]
    assert row(asked).status == ("completed" if step == "start" else "cancelled")
    assert row(destroys[0]).status == "completed"
    assert on_node() == (set(), set())
    assert again(instance) is None
    assert session.scalar(select(Address.id).where(Address.interface_id.is_not(None))) is None


def test_a_destroy_of_a_waiting_deploy(order, work, act, again, on_node):
    instance, _ = order()
    act(instance, "destroy")
    work()
    assert again(instance) is None
    assert on_node() == (set(), set())
    assert set(session.scalars(select(Task.status).where(Task.resource_id == instance.id))) == {
        "cancelled",
        "completed",
    }


# --- workers that die, or wake up too late


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("step", ["has_image", "put_image", "create_disk", "write_seed", "define", "start"])
def test_a_worker_that_dies_loses_nothing_and_doubles_nothing(
    order, work, die, at, sweeping, on_node, kinds, row, again, cast, node, step, after
):
    node.delete_image("default", machine_spec.on_node(cast.image).name)
    instance, asked = order()
    die(asked, step, after=after)
    assert row(asked).status == "running"
    sweeping.passes(60)
    there = []
    with at("create_disk", then=lambda: there.append(on_node()[0])):
        work()
    assert there == [set()]  # no disk is replaced below a machine that may run
    done = row(asked)
    assert (done.status, done.attempt, done.undo) == ("completed", 2, [])
    assert on_node() == ({instance.name}, {f"{instance.name}-0.qcow2", f"{instance.name}-seed.iso"})
    assert again(instance).state == "running"
    assert kinds(instance) == ["instance.created", "instance.deployed"]
    held = session.scalars(select(Address.ip).where(Address.interface_id.is_not(None))).all()
    assert sorted(held) == sorted(address.ip for address in again(instance).addresses)


def test_one_that_was_declared_dead_and_wakes_up_touches_nothing_more(order, at, sweeping, on_node, row, again, node):
    """It hangs in a call while another worker takes its task and finishes it; then its own call fails."""
    instance, asked = order()
    statuses = []

    def hang():
        if not statuses:
            statuses.append(row(asked).status)
            sweeping.passes(60)
            run(asked)
            statuses.append(row(asked).status)
            node.fault("create_disk", "refuse", 1)

    with at("create_disk", then=hang):
        run(asked)
    assert statuses == ["running", "completed"]
    assert (row(asked).status, row(asked).attempt, row(asked).error) == ("completed", 2, None)
    assert again(instance).state == "running"
    assert on_node() == ({instance.name}, {f"{instance.name}-0.qcow2", f"{instance.name}-seed.iso"})


def test_one_that_was_declared_dead_takes_nothing_of_the_other_back(order, at, sweeping, on_node, row, node, cast):
    """Its call fails while the other worker is in the middle: what is to be undone is the other's by now."""
    instance, asked = order()
    disk = machine_spec.disk_of(instance.disks[0])

    def hang():
        sweeping.passes(60)
        work = runner.Work(claiming.claim(asked.id, "the other"), "the other")
        work.undo("delete_disk", disk.pool, disk.name)
        node.create_disk(disk, machine_spec.on_node(cast.image))
        node.fault("define", "refuse", 1)

    with at("define", then=hang):
        run(asked)
    assert node.faults() == []
    assert (row(asked).status, row(asked).worker) == ("running", "the other")
    assert disk.name in on_node()[1]


def test_a_database_that_goes_away_is_like_a_worker_that_dies(order, work, at, sweeping, row, again, kinds):
    instance, asked = order()

    def away():
        raise OperationalError("update tasks", {}, Exception("the server closed the connection"))

    with at("define", then=away):
        run(asked)
    assert (row(asked).status, row(asked).error) == ("running", None)
    sweeping.passes(60)
    work()
    assert row(asked).status == "completed"
    assert kinds(instance) == ["instance.created", "instance.deployed"]


def test_a_restart_that_was_cut_off_is_not_done_again(machine, act, die, sweeping, work, at, row):
    asked = act(machine, "restart")
    die(asked, "restart")
    sweeping.passes(60)
    restarts = []
    with at("restart", then=lambda: restarts.append(1)):
        work()
    assert restarts == []
    assert row(asked).status == "failed"
    assert "not known" in row(asked).error


# --- endings


def test_a_fault_in_the_body_ends_the_task(order, work, monkeypatch, row, on_node):
    _, asked = order()
    monkeypatch.setattr(bodies, "machine", lambda *_: 1 / 0)
    work()
    ended = row(asked)
    assert (ended.status, ended.error) == ("failed", "Something went wrong inside the panel.")
    assert "ZeroDivisionError" in ended.error_detail
    assert on_node() == (set(), set())


def test_a_fault_in_the_ending_ends_the_task(order, work, node, monkeypatch, row):
    _, asked = order()
    node.fault("start", "refuse", 1)
    kind = KINDS["instance_deploy"]
    monkeypatch.setitem(KINDS, "instance_deploy", Kind(kind.body, lambda *_: 1 / 0, ()))
    work()
    assert (row(asked).status, row(asked).error) == ("failed", "The hypervisor refused this.")


def test_an_undo_step_that_nobody_knows_stays_and_the_task_ends(order, work, node, row, at):
    _, asked = order()

    def write():
        row(asked).undo = [["unmake", "x"], *asked.undo]
        session.commit()

    node.fault("start", "refuse", 1)
    with at("define", then=write):
        work()
    assert row(asked).status == "failed"
    assert (row(asked).undo, row(asked).undo_left) == ([["unmake", "x"]], True)


def test_the_next_try_takes_back_what_the_last_one_left(order, work, node, on_node, row, again):
    """The node breaks while the machine is made, and is back before the sweep came."""
    instance, asked = order()
    node.fault("start", "refuse")
    node.fault("delete", "refuse")
    work()
    assert on_node()[0] == {instance.name}
    assert row(asked).undo_left
    node.clear()
    _, second = order(again(instance))
    node.fault("has_image", "refuse", 1)
    work()
    assert row(second).status == "failed"
    assert on_node() == (set(), set())
    assert not row(asked).undo_left
    assert not row(second).undo_left


def test_what_others_change_meanwhile_stays_changed(order, work, at, again):
    instance, _ = order()
    rename = text("update instances set display_name = 'renamed' where id = :id")
    with at("define", then=lambda: (session.execute(rename, {"id": instance.id}), session.commit())):
        work()
    assert (again(instance).display_name, again(instance).state) == ("renamed", "running")


def test_an_image_that_was_removed_meanwhile(order, work, cast, row):
    _, asked = order()
    session.delete(session.merge(cast.image))
    session.commit()
    work()
    assert "Choose another one" in row(asked).error


# --- power


def test_a_start_waits_for_the_stop_that_came_before(machine, act, work, at, node, again):
    stop = act(machine, "stop")
    waited = []

    def start():
        later = act(again(machine), "start")
        run(later)
        waited.append(later.status)

    with at("shutdown", then=start):
        run(stop)
    assert (waited, again(machine).state) == (["queued"], "stopped")
    work()
    assert [seen.power for seen in node.machines()] == [Power.on]
    assert again(machine).state == "running"


def test_a_shutdown_ends_when_the_node_tells_of_it(machine, act, work, node, at, monkeypatch, kinds, again):
    """The guest takes its time. The event is written by another process; the node is not asked again and again."""
    node.set_guest(machine.id, heeds_shutdown=False)
    asked, looks = act(machine, "shutdown"), []

    def off():
        node.guest_powers_off(machine.id)
        node_sync.changed(machine.hypervisor_id, machine.id, Power.off)

    slept = iter([None, None, off])
    monkeypatch.setattr(bodies.time, "sleep", lambda _: (next(slept) or str)())
    with at("power", then=lambda: looks.append(1)):
        work()
    assert (asked.status, again(machine).state) == ("completed", "stopped")
    assert len(looks) == 2  # the task, and the one who heard the event
    assert kinds(machine)[-1] == "instance.status_changed"
    assert kinds(machine).count("instance.status_changed") == 1


def test_a_guest_that_does_not_obey(machine, act, work, node, monkeypatch, row, again):
    monkeypatch.setattr(bodies, "SHUTDOWN_PATIENCE", 0.01)
    node.set_guest(machine.id, heeds_shutdown=False)
    asked = act(machine, "shutdown")
    work()
    assert row(asked).status == "failed"
    assert "Power it off" in row(asked).error
    assert again(machine).state == "running"
    asked = act(machine, "stop")
    work()
    assert row(asked).status == "completed"
    assert again(machine).state == "stopped"


@pytest.mark.parametrize("action", ["shutdown", "stop"])
def test_a_guest_that_was_still_starting_is_asked_again(machine, act, work, node, at, monkeypatch, row, again, action):
    """It does not hear the power button yet, and pulling the plug would cost it what it is writing."""
    monkeypatch.setattr(bodies, "REMINDED_AFTER", 0)
    node.set_guest(machine.id, heeds_shutdown=False)
    asked, heard, plugs = act(machine, action), [], []

    def started():
        heard.append(1)
        node.set_guest(machine.id, heeds_shutdown=len(heard) > 1)

    with at("shutdown", then=started), at("power_off", then=lambda: plugs.append(1)):
        work()
    assert (row(asked).status, again(machine).state) == ("completed", "stopped")
    assert len(heard) > 1
    assert plugs == []


def test_a_task_that_waits_can_be_cancelled(machine, act, work, node, monkeypatch, row):
    node.set_guest(machine.id, heeds_shutdown=False)
    asked = act(machine, "shutdown")
    monkeypatch.setattr(bodies.time, "sleep", lambda _: (tasks.cancel(row(asked)), session.commit()))
    work()
    assert row(asked).status == "cancelled"


# --- images


def test_one_task_at_a_time_copies_an_image_to_a_node(order, work, cast, node, monkeypatch, at, row):
    node.delete_image("default", machine_spec.on_node(cast.image).name)
    (_, first), (_, second) = order(), order()
    stages, copies = [], []

    def meanwhile(_):
        stages.append(row(second).stage)
        runner.end(runner.Work(first, "first"), "completed", stage="Done")

    assert claiming.claim(first.id, "first")
    runner.Work(first, "first").step_alone(f"Copying the image {cast.image.label}", 10)
    monkeypatch.setattr(runner.time, "sleep", meanwhile)
    with at("put_image", then=lambda: copies.append(row(second).stage)):
        run(second)
    assert stages == [f"Waiting for another task: Copying the image {cast.image.label}"]
    assert copies == [f"Copying the image {cast.image.label}"]
    assert row(second).status == "completed"


def test_a_node_that_was_reinstalled_gets_the_image_again(order, work, cast, node, again):
    order()
    work()
    node.delete_disk("default", machine_spec.on_node(cast.image).name)
    instance, _ = order()
    work()
    assert again(instance).state == "running"


def test_nothing_is_open_when_all_is_done(order, work):
    for _ in range(3):
        order()
    work()
    assert session.scalar(select(Task.id).where(Task.status.in_(OPEN))) is None
    assert session.scalar(select(Instance.id).where(~Instance.deployed)) is None


def test_progress_never_goes_back(machine, act, work, monkeypatch):
    """A step that several kinds share begins at a number of its own: what people saw before stays the least."""
    seen = []
    say = runner.Work.update
    monkeypatch.setattr(runner.Work, "update", lambda self, **new: seen.append(new["progress"]) or say(self, **new))
    machine.started_ram = machine.ram + 1  # another plan waits for the next start
    session.commit()
    done = act(machine, "restart")
    work()
    assert (done.status, done.progress) == ("completed", 100)
    assert len(seen) > 2
    assert seen == sorted(seen)
