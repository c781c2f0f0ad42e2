"""What the sweep mends: workers that are gone, bells that were lost, steps that could not be taken back."""

from datetime import timedelta

from redis import RedisError
from sqlalchemy import update

from panel.core import clock, jobs
from panel.core.db import session
from panel.models import Task
from panel.services import tasks
from tests.conftest import queued_calls
from worker.engine import claiming, reaper, runner
from worker.engine.reaper import MAX_TASK_ATTEMPTS, TASK_LEASE_SECONDS
from worker.engine.reaper import queue_length as waiting_bells


def claim_task(asked, worker="lost"):
    assert claiming.claim(asked.id, worker) is asked


def refresh_heartbeat(asked):
    session.execute(update(Task).where(Task.id == asked.id).values(heartbeat_at=clock.now()))
    session.commit()


def test_a_task_without_a_heartbeat_is_requeued(order, manual_reaper, reload_task):
    _, asked = order()
    claim_task(asked)
    manual_reaper.advance(TASK_LEASE_SECONDS)
    assert reload_task(asked).status == "running"
    manual_reaper.advance(5)
    assert (reload_task(asked).status, reload_task(asked).worker, reload_task(asked).attempt) == ("queued", None, 1)
    assert "lost" in reload_task(asked).stage
    manual_reaper.advance(5)
    assert ("worker.engine.runner.run", (asked.id,)) in queued_calls


def test_a_living_worker_keeps_its_task(order, manual_reaper, reload_task):
    _, asked = order()
    claim_task(asked)
    for _ in range(20):
        manual_reaper.advance(10)
        refresh_heartbeat(asked)
    assert (reload_task(asked).status, reload_task(asked).worker) == ("running", "lost")


def test_a_clock_that_jumps_takes_no_task_away(order, manual_reaper, reload_task, monkeypatch):
    """Neither forward nor back, and a worker that is dead is found all the same."""
    _, asked = order()
    claim_task(asked)
    today = clock.now()
    for jump in (timedelta(days=300), timedelta(days=-300)):
        monkeypatch.setattr(clock, "now", lambda jump=jump: today + jump)
        manual_reaper.advance(20)
        refresh_heartbeat(asked)
        manual_reaper.advance(20)
        assert reload_task(asked).status == "running"
        refresh_heartbeat(asked)
    manual_reaper.advance(TASK_LEASE_SECONDS + 10)
    assert reload_task(asked).status == "queued"


def test_a_sweep_that_was_away_gives_everybody_a_whole_lease(order, manual_reaper, reload_task):
    """Its machine was asleep, or the database was away from all of them."""
    _, asked = order()
    claim_task(asked)
    manual_reaper.advance(20)
    type(manual_reaper).time += 3600
    manual_reaper.advance(5)
    refresh_heartbeat(asked)
    manual_reaper.advance(30)
    assert reload_task(asked).status == "running"


def test_a_task_that_loses_every_worker_fails(
    order, manual_reaper, reload_task, reload, event_kinds, node, run_tasks, names_on_node
):
    instance, asked = order()
    for attempt in range(MAX_TASK_ATTEMPTS):
        claim_task(asked, f"worker {attempt}")
        node.prepare_pool("default", "/srv/disks")
        runner.TaskContext(asked, f"worker {attempt}").undo("delete_disk", "default", instance.disks[0].name)
        manual_reaper.advance(TASK_LEASE_SECONDS + 5)
    ended = reload_task(asked)
    assert (ended.status, ended.attempt, ended.rollback_pending) == ("failed", MAX_TASK_ATTEMPTS, True)
    assert "Try again" in ended.error
    assert reload(instance).last_error == ended.error
    queued_calls.clear()
    manual_reaper.advance(TASK_LEASE_SECONDS + 5)
    run_tasks()
    assert (reload_task(asked).rollback_steps, reload_task(asked).rollback_pending, reload_task(asked).worker) == (
        [],
        False,
        None,
    )


def test_a_rollback_of_a_lost_worker_is_taken_over(
    order, manual_reaper, reload_task, node, run_tasks, kill_worker_at, names_on_node
):
    _, asked = order()
    node.fault("start", "refuse")
    node.fault("delete", "refuse", 1)
    run_tasks()
    assert reload_task(asked).rollback_pending
    kill_worker_at(asked, "delete")
    assert reload_task(asked).worker
    manual_reaper.advance(2 * TASK_LEASE_SECONDS + 10)
    run_tasks()
    assert (reload_task(asked).rollback_pending, reload_task(asked).worker) == (False, None)
    assert names_on_node() == (set(), set())


def test_lost_wakeups_are_repeated(order, manual_reaper):
    _, asked = order()
    queued_calls.clear()
    manual_reaper.advance(5)
    assert queued_calls == []  # its own bell may still be on the way
    manual_reaper.advance(5)
    assert queued_calls == [("worker.engine.runner.run", (asked.id,))]


def test_reaper_does_not_notify_during_a_backlog_or_redis_outage(order, manual_reaper, monkeypatch):
    order()
    queued_calls.clear()
    monkeypatch.setattr(reaper, "queue_length", lambda: reaper.MAX_BACKLOG)
    manual_reaper.advance(20)
    assert queued_calls == []

    def away():
        raise RedisError("connection refused")

    monkeypatch.setattr(jobs, "queue", away)
    monkeypatch.setattr(reaper, "queue_length", waiting_bells)
    manual_reaper.advance(20)
    assert queued_calls == []


def test_reaper_does_not_notify_for_tasks_that_must_wait(cast, order, manual_reaper, reload_task):
    cast.node.max_tasks = 1
    (_, first), (_, second) = order(), order()
    claim_task(first)
    queued_calls.clear()
    for _ in range(4):
        manual_reaper.advance(5)
        refresh_heartbeat(first)
    assert queued_calls == []
    tasks.cancel(second)
    session.commit()
    manual_reaper.advance(5)
    assert ("worker.engine.runner.run", (second.id,)) in queued_calls


def test_nothing_is_asked_of_a_node_that_is_down(cast, order, manual_reaper, reload_task, node, run_tasks):
    _, asked = order()
    node.fault("start", "refuse")
    node.fault("delete", "refuse")
    run_tasks()
    cast.node.status = "down"
    session.commit()
    manual_reaper.advance(100)
    assert queued_calls == []
    assert reload_task(asked).rollback_pending
