"""The reaper: lost workers, lost notifications and rollback steps that failed."""

from datetime import timedelta

from redis import RedisError
from sqlalchemy import update

from panel.core import clock, jobs
from panel.core.db import session
from panel.models import Task
from panel.services import tasks
from tests.support.task_queue import queued_calls
from worker.engine import claiming, reaper, runner
from worker.engine.reaper import MAX_TASK_ATTEMPTS, TASK_LEASE_SECONDS
from worker.engine.reaper import get_queue_length as real_queue_length


def claim_task(task, worker="lost"):
    assert claiming.claim(task.id, worker) is task


def refresh_heartbeat(task):
    session.execute(update(Task).where(Task.id == task.id).values(heartbeat_at=clock.now()))
    session.commit()


def test_task_without_heartbeat_is_requeued(request_deploy, manual_reaper, reload_task):
    _, task = request_deploy()
    claim_task(task)
    manual_reaper.advance(TASK_LEASE_SECONDS)
    assert reload_task(task).status == "running"
    manual_reaper.advance(5)
    assert (reload_task(task).status, reload_task(task).worker, reload_task(task).attempt) == ("queued", None, 1)
    assert "lost" in reload_task(task).stage
    manual_reaper.advance(5)
    assert ("worker.engine.runner.run", (task.id,)) in queued_calls


def test_task_with_heartbeat_keeps_its_worker(request_deploy, manual_reaper, reload_task):
    _, task = request_deploy()
    claim_task(task)
    for _ in range(20):
        manual_reaper.advance(10)
        refresh_heartbeat(task)
    assert (reload_task(task).status, reload_task(task).worker) == ("running", "lost")


def test_clock_jumps_do_not_requeue_running_tasks(request_deploy, manual_reaper, reload_task, monkeypatch):
    """Neither forward nor backward jumps, and a lost worker is still detected."""
    _, task = request_deploy()
    claim_task(task)
    today = clock.now()
    for jump in (timedelta(days=300), timedelta(days=-300)):
        monkeypatch.setattr(clock, "now", lambda jump=jump: today + jump)
        manual_reaper.advance(20)
        refresh_heartbeat(task)
        manual_reaper.advance(20)
        assert reload_task(task).status == "running"
        refresh_heartbeat(task)
    manual_reaper.advance(TASK_LEASE_SECONDS + 10)
    assert reload_task(task).status == "queued"


def test_reaper_grants_full_lease_after_its_own_pause(request_deploy, manual_reaper, reload_task):
    """Its machine was suspended, or the database was unavailable to all processes."""
    _, task = request_deploy()
    claim_task(task)
    manual_reaper.advance(20)
    type(manual_reaper).time += 3600
    manual_reaper.advance(5)
    refresh_heartbeat(task)
    manual_reaper.advance(30)
    assert reload_task(task).status == "running"


def test_task_fails_after_maximum_attempts(
    request_deploy, manual_reaper, reload_task, reload, event_kinds, node, run_tasks, names_on_node
):
    instance, task = request_deploy()
    for attempt in range(MAX_TASK_ATTEMPTS):
        claim_task(task, f"worker {attempt}")
        node.prepare_pool("default", "/srv/disks")
        runner.TaskContext(task, f"worker {attempt}").undo("delete_disk", "default", instance.disks[0].name)
        manual_reaper.advance(TASK_LEASE_SECONDS + 5)
    failed_task = reload_task(task)
    assert (failed_task.status, failed_task.attempt, failed_task.rollback_pending) == (
        "failed",
        MAX_TASK_ATTEMPTS,
        True,
    )
    assert "Try again" in failed_task.error
    assert reload(instance).last_error == failed_task.error
    queued_calls.clear()
    manual_reaper.advance(TASK_LEASE_SECONDS + 5)
    run_tasks()
    assert (reload_task(task).rollback_steps, reload_task(task).rollback_pending, reload_task(task).worker) == (
        [],
        False,
        None,
    )


def test_rollback_of_lost_worker_is_resumed(
    request_deploy, manual_reaper, reload_task, node, run_tasks, kill_worker_at, names_on_node
):
    _, task = request_deploy()
    node.fault("start", "refuse")
    node.fault("delete", "refuse", 1)
    run_tasks()
    assert reload_task(task).rollback_pending
    kill_worker_at(task, "delete")
    assert reload_task(task).worker
    manual_reaper.advance(2 * TASK_LEASE_SECONDS + 10)
    run_tasks()
    assert (reload_task(task).rollback_pending, reload_task(task).worker) == (False, None)
    assert names_on_node() == (set(), set())


def test_lost_notifications_are_repeated(request_deploy, manual_reaper):
    _, task = request_deploy()
    queued_calls.clear()
    manual_reaper.advance(5)
    assert queued_calls == []  # the first notification may still be in the queue
    manual_reaper.advance(5)
    assert queued_calls == [("worker.engine.runner.run", (task.id,))]


def test_reaper_does_not_notify_during_backlog_or_redis_outage(request_deploy, manual_reaper, monkeypatch):
    request_deploy()
    queued_calls.clear()
    monkeypatch.setattr(reaper, "get_queue_length", lambda: reaper.MAX_BACKLOG)
    manual_reaper.advance(20)
    assert queued_calls == []

    def raise_redis_error():
        raise RedisError("connection refused")

    monkeypatch.setattr(jobs, "queue", raise_redis_error)
    monkeypatch.setattr(reaper, "get_queue_length", real_queue_length)
    manual_reaper.advance(20)
    assert queued_calls == []


def test_reaper_does_not_notify_for_blocked_tasks(cast, request_deploy, manual_reaper, reload_task):
    cast.node.max_tasks = 1
    (_, first), (_, second) = request_deploy(), request_deploy()
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


def test_reaper_does_not_notify_for_tasks_of_down_node(
    cast, request_deploy, manual_reaper, reload_task, node, run_tasks
):
    _, task = request_deploy()
    node.fault("start", "refuse")
    node.fault("delete", "refuse")
    run_tasks()
    cast.node.status = "down"
    session.commit()
    manual_reaper.advance(100)
    assert queued_calls == []
    assert reload_task(task).rollback_pending
