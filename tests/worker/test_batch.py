"""Many machines started by one command: together what goes smoothly, alone what does not."""

import pytest
from sqlalchemy import select, update

from panel.core import jobs
from panel.core.db import session
from panel.models import Instance, Task, TaskLog
from panel.services import security_groups
from panel.services.instances import rescue
from tests.conftest import bells
from worker.engine import batch, claiming, runner
from worker.engine.reaper import LEASE
from worker.nodes.base import Power


@pytest.fixture
def fleet(order, work, act):
    """Four machines that are off."""
    instances = [order()[0] for _ in range(4)]
    work()
    for instance in instances:
        act(instance, "poweroff")
    work()
    return instances


@pytest.fixture
def start(fleet, act):
    """Asks for starts of all of them; gives the tasks. No bell has been heard yet."""

    def start():
        asked = [act(instance, "start") for instance in fleet]
        bells.clear()
        return asked

    return start


def run(tasks):
    batch.run([row.id for row in tasks], "batch")


def rung():
    """The tasks that somebody is asked to carry alone."""
    assert all(len(ids) == 1 for function, ids in bells if function == "worker.engine.runner.run")
    return [ids[0] for function, ids in bells if function == "worker.engine.runner.run"]


def states(tasks, row):
    return [(row(one).status, row(one).worker, row(one).attempt) for one in tasks]


DONE, WAITS = ("completed", None, 1), ("queued", None, 0)


def test_all_of_them_at_once(fleet, start, row, again, kinds, node):
    tasks = start()
    run(tasks)
    assert states(tasks, row) == [DONE] * 4
    assert rung() == []
    for instance, asked in zip(fleet, tasks, strict=True):
        assert again(instance).power == "on"
        assert node.power(instance.id) is Power.on
        assert kinds(instance)[-1] == "instance.status_changed"
        done = row(asked)
        assert (done.stage, done.progress, done.error) == ("Done", 100, None)
        assert done.started_at <= done.finished_at
        said = session.scalars(select(TaskLog.message).where(TaskLog.task_id == asked.id)).all()
        assert said == ["Starting"]


def test_a_constant_number_of_queries(fleet, start, queries):
    counts = []
    for many in (2, 4):
        tasks = start()
        queries.clear()
        run(tasks[:many])
        counts.append(sum("SAVEPOINT" not in one for one in queries))
        session.execute(update(Instance).values(power="off"))
        session.execute(update(Task).values(status="completed"))
        session.commit()
    assert counts[0] == counts[1] <= 10


def test_what_is_not_ordinary_is_carried_alone(fleet, start, row, again, work, cast):
    """One is in a security group, one has another task under way, one was begun before."""
    grouped, busy, _, plain = fleet
    group = security_groups.create(cast.owner, name="web")
    security_groups.attach(group, [grouped.id], cast.owner, actor="test")
    session.commit()
    work()
    tasks = start()
    other = jobs.enqueue("instance_poweroff", "instance", busy, lock="light", actor="test")
    tasks[2].attempt = 1
    session.commit()
    bells.clear()
    run(tasks)
    assert [row(one).status for one in tasks] == ["queued", "queued", "queued", "completed"]
    assert set(rung()) == {one.id for one in tasks[:3]}
    assert again(plain).power == "on"
    session.delete(session.get(Task, other.id))
    session.commit()
    work()
    assert [row(one).status for one in tasks] == ["completed"] * 4
    assert {again(instance).power for instance in fleet} == {"on"}


def test_a_suspended_machine_and_one_in_rescue(fleet, start, act, row, again, work):
    """Their own rules hold for them: the batch leaves them aside."""
    rescue.switch(fleet[0], True, actor="test")
    session.commit()
    work()
    act(fleet[0], "poweroff")
    work()
    tasks = start()
    fleet[1].suspended_reason = "user"
    session.commit()
    run(tasks)
    assert [row(one).status for one in tasks] == ["queued", "queued", "completed", "completed"]
    work()
    assert [row(one).status for one in tasks] == ["completed", "failed", "completed", "completed"]
    assert "suspended meanwhile" in row(tasks[1]).error
    assert again(fleet[1]).power == "off"


def test_other_kinds_in_the_bell_are_rung_for_one_by_one(fleet, start, row, act):
    tasks = start()
    stop = act(fleet[0], "stop")
    bells.clear()
    batch.run([stop.id, *(one.id for one in tasks)], "batch")
    assert set(rung()) == {stop.id, tasks[0].id}
    assert [row(one).status for one in tasks[1:]] == ["completed"] * 3


@pytest.mark.parametrize("operation", ["define", "start"])
def test_a_fault_ends_the_batch_and_nothing_is_lost(fleet, start, row, again, work, at, node, operation):
    """The third machine meets it. Those before are done, it and the one behind it begin anew."""
    met = []

    def fail():
        met.append(operation)
        if len(met) == 3:
            node.fault("*", "silent")

    tasks = start()
    with at(operation, fail):
        run(tasks)
    assert states(tasks, row) == [DONE, DONE, WAITS, WAITS]
    assert rung() == [one.id for one in tasks[2:]]
    node.clear()
    node.ping()
    work()
    assert {row(one).status for one in tasks} == {"completed"}
    assert {again(instance).power for instance in fleet} == {"on"}


def test_a_slow_node_keeps_nobody_waiting(fleet, start, row, work, at, monkeypatch):
    """When the time is over the others are given back, for hands that are free."""
    monkeypatch.setattr(batch, "PATIENCE", 0.5)
    seconds = iter([0.0, 0.1, 0.4, 0.6, 0.7])
    monkeypatch.setattr("time.monotonic", lambda: next(seconds, 1.0))
    tasks = start()
    run(tasks)
    assert states(tasks, row) == [DONE, DONE, WAITS, WAITS]
    monkeypatch.undo()
    work()
    assert {row(one).status for one in tasks} == {"completed"}


def test_a_worker_that_is_killed_loses_none_of_them(fleet, start, row, again, work, at, sweeping):
    tasks = start()

    class Killed(BaseException):
        pass

    def kill():
        raise Killed

    with at("start", kill, after=True), pytest.raises(Killed):
        run(tasks)
    session.rollback()
    assert [(row(one).status, row(one).worker) for one in tasks] == [("running", "batch")] * 4
    sweeping.passes(LEASE + 10)
    work()
    assert [(row(one).status, row(one).attempt) for one in tasks] == [("completed", 2)] * 4
    assert {again(instance).power for instance in fleet} == {"on"}


def test_what_was_taken_away_meanwhile_is_not_touched(fleet, start, row, at):
    """One of them was handed to another worker: it keeps that one, and the others begin anew."""
    tasks = start()

    def hand_over():
        session.execute(update(Task).where(Task.id == tasks[0].id).values(worker="another"))
        session.commit()

    with at("start", hand_over):
        run(tasks)
    assert states(tasks, row) == [("running", "another", 1), WAITS, WAITS, WAITS]
    assert set(rung()) >= {one.id for one in tasks[1:]}


def test_who_waited_for_one_of_them_is_rung_for(fleet, start, row, at, act):
    tasks, waits = start(), []
    with at("start", lambda: waits or waits.append(act(fleet[0], "stop"))):
        run(tasks)
    assert [row(one).status for one in tasks] == ["completed"] * 4
    assert waits[0].id in rung()


def test_a_crash_of_the_body_gives_all_of_them_back(fleet, start, row, work, monkeypatch):
    tasks = start()
    with monkeypatch.context() as patched:
        patched.setattr(batch, "end", lambda works: 1 / 0)
        run(tasks)
    assert states(tasks, row) == [WAITS] * 4
    work()
    assert {row(one).status for one in tasks} == {"completed"}


def test_a_second_bell_takes_nothing(fleet, start, row):
    tasks = start()
    assert claiming.claim(tasks[0].id, "first")
    run(tasks)
    assert row(tasks[0]).worker == "first"
    bells.clear()
    run(tasks)
    assert [row(one).status for one in tasks] == ["running", "completed", "completed", "completed"]
    runner.end(runner.Work(tasks[0], "first"), "completed", stage="Done")


def test_a_large_command_rings_for_several_and_a_small_one_for_each(cast):
    """No hand is to be idle while others have several tasks (16 hands are two workers of eight)."""
    for many, bell in ((3, 1), (16, 1), (40, 3), (400, 16)):
        bells.clear()
        ring = jobs.Bells()
        ring.task_ids = [str(number) for number in range(many)]
        ring()
        assert max(len(ids) for _, ids in bells) == bell
        assert [one for _, ids in bells for one in ids] == ring.task_ids
