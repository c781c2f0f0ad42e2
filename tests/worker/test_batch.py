"""Starts of several instances in one batch. Tasks that the batch cannot complete are queued again and run alone."""

import pytest
from sqlalchemy import select, update

from panel.core import jobs
from panel.core.db import session
from panel.models import Instance, Task, TaskLog
from panel.services import security_groups
from panel.services.instances import rescue
from tests.support.task_queue import queued_calls
from worker.engine import batch, claiming, runner
from worker.engine.reaper import TASK_LEASE_SECONDS
from worker.nodes.base import Power

pytestmark = pytest.mark.usefixtures("long_batch_deadline")


@pytest.fixture
def stopped_instances(request_deploy, run_tasks, request_action):
    """Four deployed instances that are off."""
    instances = [request_deploy()[0] for _ in range(4)]
    run_tasks()
    for instance in instances:
        request_action(instance, "poweroff")
    run_tasks()
    return instances


@pytest.fixture
def request_starts(stopped_instances, request_action):
    """Return a function that requests a start of each instance and returns the tasks. No notification was received
    yet."""

    def request():
        tasks = [request_action(instance, "start") for instance in stopped_instances]
        queued_calls.clear()
        return tasks

    return request


def run_batch(tasks):
    batch.run([task.id for task in tasks], "batch")


def list_requeued_task_ids():
    """Return the ids of the tasks that were queued to run alone."""
    assert all(len(ids) == 1 for function, ids in queued_calls if function == "worker.engine.runner.run")
    return [ids[0] for function, ids in queued_calls if function == "worker.engine.runner.run"]


def list_task_states(tasks, reload_task):
    return [(reload_task(task).status, reload_task(task).worker, reload_task(task).attempt) for task in tasks]


COMPLETED_STATE, QUEUED_STATE = ("completed", None, 1), ("queued", None, 0)


def test_batch_completes_all_starts(stopped_instances, request_starts, reload_task, reload, event_kinds, node):
    tasks = request_starts()
    run_batch(tasks)
    assert list_task_states(tasks, reload_task) == [COMPLETED_STATE] * 4
    assert list_requeued_task_ids() == []
    for instance, task in zip(stopped_instances, tasks, strict=True):
        assert reload(instance).power == "on"
        assert node.power(instance.id) is Power.on
        assert event_kinds(instance)[-1] == "instance.status_changed"
        row = reload_task(task)
        assert (row.stage, row.progress, row.error) == ("Done", 100, None)
        assert row.started_at <= row.finished_at
        messages = session.scalars(select(TaskLog.message).where(TaskLog.task_id == task.id)).all()
        assert messages == ["Starting"]


def test_batch_query_count_is_constant(stopped_instances, request_starts, queries):
    counts = []
    for count in (2, 4):
        tasks = request_starts()
        queries.clear()
        run_batch(tasks[:count])
        counts.append(sum("SAVEPOINT" not in statement for statement in queries))
        session.execute(update(Instance).values(power="off"))
        session.execute(update(Task).values(status="completed"))
        session.commit()
    assert counts[0] == counts[1] <= 10


def test_unbatchable_tasks_are_requeued_alone(stopped_instances, request_starts, reload_task, reload, run_tasks, cast):
    """One instance has a security group, one has another open task, and one task was already attempted."""
    grouped, busy, _, plain = stopped_instances
    group = security_groups.create(cast.owner, name="web")
    security_groups.attach(group, [grouped.id], cast.owner, actor="test")
    session.commit()
    run_tasks()
    tasks = request_starts()
    poweroff = jobs.enqueue("instance_poweroff", "instance", busy, lock="light", actor="test")
    tasks[2].attempt = 1
    session.commit()
    queued_calls.clear()
    run_batch(tasks)
    assert [reload_task(task).status for task in tasks] == ["queued", "queued", "queued", "completed"]
    assert set(list_requeued_task_ids()) == {task.id for task in tasks[:3]}
    assert reload(plain).power == "on"
    session.delete(session.get(Task, poweroff.id))
    session.commit()
    run_tasks()
    assert [reload_task(task).status for task in tasks] == ["completed"] * 4
    assert {reload(instance).power for instance in stopped_instances} == {"on"}


def test_batch_requeues_suspended_and_rescue_instances(
    stopped_instances, request_starts, request_action, reload_task, reload, run_tasks
):
    """A start of these needs other steps, so the batch does not run it."""
    rescue.switch(stopped_instances[0], True, actor="test")
    session.commit()
    run_tasks()
    request_action(stopped_instances[0], "poweroff")
    run_tasks()
    tasks = request_starts()
    stopped_instances[1].suspended_reason = "user"
    session.commit()
    run_batch(tasks)
    assert [reload_task(task).status for task in tasks] == ["queued", "queued", "completed", "completed"]
    run_tasks()
    assert [reload_task(task).status for task in tasks] == ["completed", "failed", "completed", "completed"]
    assert "suspended in the meantime" in reload_task(tasks[1]).error
    assert reload(stopped_instances[1]).power == "off"


def test_batch_requeues_tasks_of_other_kinds(stopped_instances, request_starts, reload_task, request_action):
    tasks = request_starts()
    stop = request_action(stopped_instances[0], "stop")
    queued_calls.clear()
    batch.run([stop.id, *(task.id for task in tasks)], "batch")
    assert set(list_requeued_task_ids()) == {stop.id, tasks[0].id}
    assert [reload_task(task).status for task in tasks[1:]] == ["completed"] * 3


@pytest.mark.parametrize("operation", ["define", "start"])
def test_batch_requeues_remaining_tasks_after_node_fault(
    stopped_instances, request_starts, reload_task, reload, run_tasks, fault_at, node, operation
):
    """The third start fails. The first two tasks are completed; the third and fourth are queued again."""
    calls = []

    def fail():
        calls.append(operation)
        if len(calls) == 3:
            node.fault("*", "silent")

    tasks = request_starts()
    with fault_at(operation, fail):
        run_batch(tasks)
    assert list_task_states(tasks, reload_task) == [COMPLETED_STATE, COMPLETED_STATE, QUEUED_STATE, QUEUED_STATE]
    assert list_requeued_task_ids() == [task.id for task in tasks[2:]]
    node.clear()
    node.ping()
    run_tasks()
    assert {reload_task(task).status for task in tasks} == {"completed"}
    assert {reload(instance).power for instance in stopped_instances} == {"on"}


def test_batch_requeues_remaining_tasks_after_deadline(
    stopped_instances, request_starts, reload_task, run_tasks, fault_at, monkeypatch
):
    """Other threads can then run them."""
    monkeypatch.setattr(batch, "BATCH_DEADLINE_SECONDS", 0.5)
    seconds = iter([0.0, 0.1, 0.4, 0.6, 0.7])
    monkeypatch.setattr("time.monotonic", lambda: next(seconds, 1.0))
    tasks = request_starts()
    run_batch(tasks)
    assert list_task_states(tasks, reload_task) == [COMPLETED_STATE, COMPLETED_STATE, QUEUED_STATE, QUEUED_STATE]
    monkeypatch.undo()
    run_tasks()
    assert {reload_task(task).status for task in tasks} == {"completed"}


def test_batch_of_killed_worker_completes_in_second_attempt(
    stopped_instances, request_starts, reload_task, reload, run_tasks, fault_at, manual_reaper
):
    tasks = request_starts()

    class Killed(BaseException):
        pass

    def kill():
        raise Killed

    with fault_at("start", kill, after=True), pytest.raises(Killed):
        run_batch(tasks)
    session.rollback()
    assert [(reload_task(task).status, reload_task(task).worker) for task in tasks] == [("running", "batch")] * 4
    manual_reaper.advance(TASK_LEASE_SECONDS + 10)
    run_tasks()
    assert [(reload_task(task).status, reload_task(task).attempt) for task in tasks] == [("completed", 2)] * 4
    assert {reload(instance).power for instance in stopped_instances} == {"on"}


def test_batch_leaves_reassigned_task_unchanged(stopped_instances, request_starts, reload_task, fault_at):
    """Another worker has claimed the first task. It keeps its lease; the others are queued again."""
    tasks = request_starts()

    def reassign():
        session.execute(update(Task).where(Task.id == tasks[0].id).values(worker="another"))
        session.commit()

    with fault_at("start", reassign):
        run_batch(tasks)
    assert list_task_states(tasks, reload_task) == [("running", "another", 1), QUEUED_STATE, QUEUED_STATE, QUEUED_STATE]
    assert set(list_requeued_task_ids()) >= {task.id for task in tasks[1:]}


def test_batch_notifies_waiting_tasks(stopped_instances, request_starts, reload_task, fault_at, request_action):
    tasks, stops = request_starts(), []
    with fault_at("start", lambda: stops or stops.append(request_action(stopped_instances[0], "stop"))):
        run_batch(tasks)
    assert [reload_task(task).status for task in tasks] == ["completed"] * 4
    assert stops[0].id in list_requeued_task_ids()


def test_batch_requeues_all_tasks_after_internal_error(
    stopped_instances, request_starts, reload_task, run_tasks, monkeypatch
):
    tasks = request_starts()
    with monkeypatch.context() as patched:
        patched.setattr(batch, "complete_batch", lambda works: 1 / 0)
        run_batch(tasks)
    assert list_task_states(tasks, reload_task) == [QUEUED_STATE] * 4
    run_tasks()
    assert {reload_task(task).status for task in tasks} == {"completed"}


def test_batch_skips_claimed_tasks(stopped_instances, request_starts, reload_task):
    tasks = request_starts()
    assert claiming.claim(tasks[0].id, "first")
    run_batch(tasks)
    assert reload_task(tasks[0]).worker == "first"
    queued_calls.clear()
    run_batch(tasks)
    assert [reload_task(task).status for task in tasks] == ["running", "completed", "completed", "completed"]
    runner.finish(runner.TaskContext(tasks[0], "first"), "completed", stage="Done")


def test_notifications_are_split_among_workers(cast):
    """No thread is idle while others have several tasks (16 threads are two workers of eight)."""
    for count, size in ((3, 1), (16, 1), (40, 3), (400, 16)):
        queued_calls.clear()
        notifications = jobs.PendingNotifications()
        notifications.task_ids = [str(number) for number in range(count)]
        notifications()
        assert max(len(ids) for _, ids in queued_calls) == size
        assert [task_id for _, ids in queued_calls for task_id in ids] == notifications.task_ids
