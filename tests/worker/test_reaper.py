"""What the sweep mends: workers that are gone, bells that were lost, steps that could not be taken back."""

from datetime import timedelta

from redis import RedisError
from sqlalchemy import update

from panel.core import clock, jobs
from panel.core.db import session
from panel.models import Task
from panel.services import tasks
from tests.conftest import bells
from worker.engine import claiming, reaper, runner
from worker.engine.reaper import LEASE, MAX_ATTEMPTS
from worker.engine.reaper import bells as waiting_bells


def take(asked, worker="lost"):
    assert claiming.claim(asked.id, worker) is asked


def beat(asked):
    session.execute(update(Task).where(Task.id == asked.id).values(heartbeat_at=clock.now()))
    session.commit()


def test_a_task_without_a_heartbeat_is_handed_to_another_worker(order, sweeping, row):
    _, asked = order()
    take(asked)
    sweeping.passes(LEASE)
    assert row(asked).status == "running"
    sweeping.passes(5)
    assert (row(asked).status, row(asked).worker, row(asked).attempt) == ("queued", None, 1)
    assert "lost" in row(asked).stage
    sweeping.passes(5)
    assert ("worker.engine.runner.run", (asked.id,)) in bells


def test_a_living_worker_keeps_its_task(order, sweeping, row):
    _, asked = order()
    take(asked)
    for _ in range(20):
        sweeping.passes(10)
        beat(asked)
    assert (row(asked).status, row(asked).worker) == ("running", "lost")


def test_a_clock_that_jumps_takes_no_task_away(order, sweeping, row, monkeypatch):
    """Neither forward nor back, and a worker that is dead is found all the same."""
    _, asked = order()
    take(asked)
    today = clock.now()
    for jump in (timedelta(days=300), timedelta(days=-300)):
        monkeypatch.setattr(clock, "now", lambda jump=jump: today + jump)
        sweeping.passes(20)
        beat(asked)
        sweeping.passes(20)
        assert row(asked).status == "running"
        beat(asked)
    sweeping.passes(LEASE + 10)
    assert row(asked).status == "queued"


def test_a_sweep_that_was_away_gives_everybody_a_whole_lease(order, sweeping, row):
    """Its machine was asleep, or the database was away from all of them."""
    _, asked = order()
    take(asked)
    sweeping.passes(20)
    type(sweeping).time += 3600
    sweeping.passes(5)
    beat(asked)
    sweeping.passes(30)
    assert row(asked).status == "running"


def test_a_task_that_loses_every_worker_fails(order, sweeping, row, again, kinds, node, work, on_node):
    instance, asked = order()
    for attempt in range(MAX_ATTEMPTS):
        take(asked, f"worker {attempt}")
        node.prepare_pool("default", "/srv/disks")
        runner.Work(asked, f"worker {attempt}").undo("delete_disk", "default", instance.disks[0].name)
        sweeping.passes(LEASE + 5)
    ended = row(asked)
    assert (ended.status, ended.attempt, ended.undo_left) == ("failed", MAX_ATTEMPTS, True)
    assert "Try again" in ended.error
    assert again(instance).last_error == ended.error
    bells.clear()
    sweeping.passes(LEASE + 5)
    work()
    assert (row(asked).undo, row(asked).undo_left, row(asked).worker) == ([], False, None)


def test_somebody_who_died_while_taking_back_is_followed_by_another(order, sweeping, row, node, work, die, on_node):
    _, asked = order()
    node.fault("start", "refuse")
    node.fault("delete", "refuse", 1)
    work()
    assert row(asked).undo_left
    die(asked, "delete")
    assert row(asked).worker
    sweeping.passes(2 * LEASE + 10)
    work()
    assert (row(asked).undo_left, row(asked).worker) == (False, None)
    assert on_node() == (set(), set())


def test_a_lost_bell_is_rung_again(order, sweeping):
    _, asked = order()
    bells.clear()
    sweeping.passes(5)
    assert bells == []  # its own bell may still be on the way
    sweeping.passes(5)
    assert bells == [("worker.engine.runner.run", (asked.id,))]


def test_nobody_rings_while_many_bells_wait_or_redis_is_away(order, sweeping, monkeypatch):
    order()
    bells.clear()
    monkeypatch.setattr(reaper, "bells", lambda: reaper.MANY)
    sweeping.passes(20)
    assert bells == []

    def away():
        raise RedisError("connection refused")

    monkeypatch.setattr(jobs, "queue", away)
    monkeypatch.setattr(reaper, "bells", waiting_bells)
    sweeping.passes(20)
    assert bells == []


def test_nobody_rings_for_what_has_to_wait(cast, order, sweeping, row):
    cast.node.max_tasks = 1
    (_, first), (_, second) = order(), order()
    take(first)
    bells.clear()
    for _ in range(4):
        sweeping.passes(5)
        beat(first)
    assert bells == []
    tasks.cancel(second)
    session.commit()
    sweeping.passes(5)
    assert ("worker.engine.runner.run", (second.id,)) in bells


def test_nothing_is_asked_of_a_node_that_is_down(cast, order, sweeping, row, node, work):
    _, asked = order()
    node.fault("start", "refuse")
    node.fault("delete", "refuse")
    work()
    cast.node.status = "down"
    session.commit()
    sweeping.passes(100)
    assert bells == []
    assert row(asked).undo_left
