"""Many machines started by one command: together what goes smoothly, alone what does not."""

import pytest
from sqlalchemy import select, update

from panel.core import jobs
from panel.core.db import session
from panel.models import Instance, Task, TaskLog
from panel.services import security_groups
from panel.services.instances import rescue
from tests.conftest import queued_calls
from worker.engine import batch, claiming, runner
from worker.engine.reaper import TASK_LEASE_SECONDS
from worker.nodes.base import Power


@pytest.fixture
def fleet(order, run_tasks, request_action):
    """Four machines that are off."""
    instances = [order()[0] for _ in range(4)]
    run_tasks()
    for instance in instances:
        request_action(instance, "poweroff")
    run_tasks()
    return instances


@pytest.fixture
def request_starts(fleet, request_action):
    """Asks for starts of all of them; gives the tasks. No bell has been heard yet."""

    def start():
        asked = [request_action(instance, "start") for instance in fleet]
        queued_calls.clear()
        return asked

    return start


def run_batch(tasks):
    batch.run([row.id for row in tasks], "batch")


def requeued_tasks():
    """The tasks that somebody is asked to carry alone."""
    assert all(len(ids) == 1 for function, ids in queued_calls if function == "worker.engine.runner.run")
    return [ids[0] for function, ids in queued_calls if function == "worker.engine.runner.run"]


def task_states(tasks, row):
    return [(row(one).status, row(one).worker, row(one).attempt) for one in tasks]


COMPLETED_STATE, QUEUED_STATE = ("completed", None, 1), ("queued", None, 0)


def test_all_of_them_at_once(fleet, request_starts, reload_task, reload, event_kinds, node):
    tasks = request_starts()
    run_batch(tasks)
    assert task_states(tasks, reload_task) == [COMPLETED_STATE] * 4
    assert requeued_tasks() == []
    for instance, asked in zip(fleet, tasks, strict=True):
        assert reload(instance).power == "on"
        assert node.power(instance.id) is Power.on
        assert event_kinds(instance)[-1] == "instance.status_changed"
        done = reload_task(asked)
        assert (done.stage, done.progress, done.error) == ("Done", 100, None)
        assert done.started_at <= done.finished_at
        said = session.scalars(select(TaskLog.message).where(TaskLog.task_id == asked.id)).all()
        assert said == ["Starting"]


def test_a_constant_number_of_queries(fleet, request_starts, queries):
    counts = []
    for many in (2, 4):
        tasks = request_starts()
        queries.clear()
        run_batch(tasks[:many])
        counts.append(sum("SAVEPOINT" not in one for one in queries))
        session.execute(update(Instance).values(power="off"))
        session.execute(update(Task).values(status="completed"))
        session.commit()
    assert counts[0] == counts[1] <= 10


def test_tasks_that_are_not_batchable_run_alone(fleet, request_starts, reload_task, reload, run_tasks, cast):
    """One is in a security group, one has another task under way, one was begun before."""
    grouped, busy, _, plain = fleet
    group = security_groups.create(cast.owner, name="web")
    security_groups.attach(group, [grouped.id], cast.owner, actor="test")
    session.commit()
    run_tasks()
    tasks = request_starts()
    other = jobs.enqueue("instance_poweroff", "instance", busy, lock="light", actor="test")
    tasks[2].attempt = 1
    session.commit()
    queued_calls.clear()
    run_batch(tasks)
    assert [reload_task(one).status for one in tasks] == ["queued", "queued", "queued", "completed"]
    assert set(requeued_tasks()) == {one.id for one in tasks[:3]}
    assert reload(plain).power == "on"
    session.delete(session.get(Task, other.id))
    session.commit()
    run_tasks()
    assert [reload_task(one).status for one in tasks] == ["completed"] * 4
    assert {reload(instance).power for instance in fleet} == {"on"}


def test_a_suspended_machine_and_one_in_rescue(fleet, request_starts, request_action, reload_task, reload, run_tasks):
    """Their own rules hold for them: the batch leaves them aside."""
    rescue.switch(fleet[0], True, actor="test")
    session.commit()
    run_tasks()
    request_action(fleet[0], "poweroff")
    run_tasks()
    tasks = request_starts()
    fleet[1].suspended_reason = "user"
    session.commit()
    run_batch(tasks)
    assert [reload_task(one).status for one in tasks] == ["queued", "queued", "completed", "completed"]
    run_tasks()
    assert [reload_task(one).status for one in tasks] == ["completed", "failed", "completed", "completed"]
    assert "suspended in the meantime" in reload_task(tasks[1]).error
    assert reload(fleet[1]).power == "off"


def test_other_task_kinds_of_a_batch_are_notified_one_by_one(fleet, request_starts, reload_task, request_action):
    tasks = request_starts()
    stop = request_action(fleet[0], "stop")
    queued_calls.clear()
    batch.run([stop.id, *(one.id for one in tasks)], "batch")
    assert set(requeued_tasks()) == {stop.id, tasks[0].id}
    assert [reload_task(one).status for one in tasks[1:]] == ["completed"] * 3


@pytest.mark.parametrize("operation", ["define", "start"])
def test_a_fault_ends_the_batch_and_nothing_is_lost(
    fleet, request_starts, reload_task, reload, run_tasks, fault_at, node, operation
):
    """The third machine meets it. Those before are done, it and the one behind it begin anew."""
    met = []

    def fail():
        met.append(operation)
        if len(met) == 3:
            node.fault("*", "silent")

    tasks = request_starts()
    with fault_at(operation, fail):
        run_batch(tasks)
    assert task_states(tasks, reload_task) == [COMPLETED_STATE, COMPLETED_STATE, QUEUED_STATE, QUEUED_STATE]
    assert requeued_tasks() == [one.id for one in tasks[2:]]
    node.clear()
    node.ping()
    run_tasks()
    assert {reload_task(one).status for one in tasks} == {"completed"}
    assert {reload(instance).power for instance in fleet} == {"on"}


def test_a_slow_node_delays_no_other_task(fleet, request_starts, reload_task, run_tasks, fault_at, monkeypatch):
    """When the time is over the others are given back, for hands that are free."""
    monkeypatch.setattr(batch, "BATCH_DEADLINE_SECONDS", 0.5)
    seconds = iter([0.0, 0.1, 0.4, 0.6, 0.7])
    monkeypatch.setattr("time.monotonic", lambda: next(seconds, 1.0))
    tasks = request_starts()
    run_batch(tasks)
    assert task_states(tasks, reload_task) == [COMPLETED_STATE, COMPLETED_STATE, QUEUED_STATE, QUEUED_STATE]
    monkeypatch.undo()
    run_tasks()
    assert {reload_task(one).status for one in tasks} == {"completed"}


def test_a_worker_that_is_killed_loses_none_of_them(
    fleet, request_starts, reload_task, reload, run_tasks, fault_at, manual_reaper
):
    tasks = request_starts()

    class Killed(BaseException):
        pass

    def kill():
        raise Killed

    with fault_at("start", kill, after=True), pytest.raises(Killed):
        run_batch(tasks)
    session.rollback()
    assert [(reload_task(one).status, reload_task(one).worker) for one in tasks] == [("running", "batch")] * 4
    manual_reaper.advance(TASK_LEASE_SECONDS + 10)
    run_tasks()
    assert [(reload_task(one).status, reload_task(one).attempt) for one in tasks] == [("completed", 2)] * 4
    assert {reload(instance).power for instance in fleet} == {"on"}


def test_what_was_taken_away_meanwhile_is_not_touched(fleet, request_starts, reload_task, fault_at):
    """One of them was handed to another worker: it keeps that one, and the others begin anew."""
    tasks = request_starts()

    def hand_over():
        session.execute(update(Task).where(Task.id == tasks[0].id).values(worker="another"))
        session.commit()

    with fault_at("start", hand_over):
        run_batch(tasks)
    assert task_states(tasks, reload_task) == [("running", "another", 1), QUEUED_STATE, QUEUED_STATE, QUEUED_STATE]
    assert set(requeued_tasks()) >= {one.id for one in tasks[1:]}


def test_tasks_that_waited_for_a_batch_are_notified(fleet, request_starts, reload_task, fault_at, request_action):
    tasks, waits = request_starts(), []
    with fault_at("start", lambda: waits or waits.append(request_action(fleet[0], "stop"))):
        run_batch(tasks)
    assert [reload_task(one).status for one in tasks] == ["completed"] * 4
    assert waits[0].id in requeued_tasks()


def test_a_crash_of_the_body_gives_all_of_them_back(fleet, request_starts, reload_task, run_tasks, monkeypatch):
    tasks = request_starts()
    with monkeypatch.context() as patched:
        patched.setattr(batch, "complete_batch", lambda works: 1 / 0)
        run_batch(tasks)
    assert task_states(tasks, reload_task) == [QUEUED_STATE] * 4
    run_tasks()
    assert {reload_task(one).status for one in tasks} == {"completed"}


def test_a_second_batch_leaves_claimed_tasks_alone(fleet, request_starts, reload_task):
    tasks = request_starts()
    assert claiming.claim(tasks[0].id, "first")
    run_batch(tasks)
    assert reload_task(tasks[0]).worker == "first"
    queued_calls.clear()
    run_batch(tasks)
    assert [reload_task(one).status for one in tasks] == ["running", "completed", "completed", "completed"]
    runner.finish(runner.TaskContext(tasks[0], "first"), "completed", stage="Done")


def test_notifications_of_many_tasks_are_split_among_workers(cast):
    """No hand is to be idle while others have several tasks (16 hands are two workers of eight)."""
    for many, bell in ((3, 1), (16, 1), (40, 3), (400, 16)):
        queued_calls.clear()
        ring = jobs.PendingNotifications()
        ring.task_ids = [str(number) for number in range(many)]
        ring()
        assert max(len(ids) for _, ids in queued_calls) == bell
        assert [one for _, ids in queued_calls for one in ids] == ring.task_ids
