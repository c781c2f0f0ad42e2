"""The task pool of a worker process: parallel calls, heartbeats and repeated notifications."""

import threading

import pytest
from sqlalchemy import select

from panel.core.db import session
from panel.models import Instance, Task
from panel.services import instances
from tests.support.isolated_app import isolated_installation
from worker.engine import claiming, pool
from worker.nodes.simulated import SimulatedNode

WAIT_TIMEOUT_SECONDS = 60
"""Seconds until a test stops waiting. Never what a test measures."""


@pytest.fixture
def site(tmp_path):
    with isolated_installation(tmp_path) as app, app.app_context():
        yield app


@pytest.fixture
def worker(site):
    pool_under_test = pool.TaskPool(site, 2, heartbeat_interval=0.02)
    yield pool_under_test
    pool_under_test.shutdown()


@pytest.fixture
def request_deploy(site):
    def request():
        cast = site.cast
        placement = {"location_id": cast.location.id, "plan_id": cast.plan.id, "actor": "test"}
        instance = instances.create(session.merge(cast.owner), **placement)
        task, _ = instances.deploy(instance, image_id=cast.image.id, actor="test")
        session.commit()
        return task.id

    return request


@pytest.fixture
def blocked_starts(monkeypatch):
    """Starts of machines set `started` and wait for `released`."""

    class BlockedStarts:
        started, released = threading.Event(), threading.Event()

    def start(self, machine_id, real=SimulatedNode.start):
        BlockedStarts.started.set()
        assert BlockedStarts.released.wait(WAIT_TIMEOUT_SECONDS)
        real(self, machine_id)

    monkeypatch.setattr(SimulatedNode, "start", start)
    yield BlockedStarts
    BlockedStarts.released.set()


def read_task(task_id):
    row = session.execute(select(Task.__table__).where(Task.id == task_id)).one()
    session.rollback()
    return row


def wait_for_heartbeat(task_id):
    """Return whether the task gets a heartbeat before the timeout."""
    before, waited = read_task(task_id).heartbeat_at, threading.Event()
    for _ in range(WAIT_TIMEOUT_SECONDS * 20):
        if read_task(task_id).heartbeat_at != before:
            return True
        waited.wait(0.05)
    return False


def test_claimed_task_keeps_heartbeat_after_second_notification(worker, request_deploy, blocked_starts):
    task_id = request_deploy()
    worker.submit("worker.engine.runner.run", task_id)
    assert blocked_starts.started.wait(WAIT_TIMEOUT_SECONDS)
    assert wait_for_heartbeat(task_id)
    worker.run(task_id)  # a second notification finds it claimed and must not release it
    assert len(worker.active_claims) == 1
    assert wait_for_heartbeat(task_id)
    blocked_starts.released.set()
    worker.shutdown()
    assert (read_task(task_id).status, read_task(task_id).attempt, worker.active_claims) == ("completed", 1, set())


def test_each_claim_has_unique_worker_name(worker, request_deploy):
    """Two attempts of one task in one process must be distinguishable."""
    names = []
    claim = claiming.claim

    def record_name(task_id, name):
        names.append(name)
        return claim(task_id, name)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(claiming, "claim", record_name)
        task_id = request_deploy()
        for _ in range(3):
            worker.run(task_id)
    assert len(set(names)) == 3
    assert all(name.startswith(worker.worker) and len(name) <= 64 for name in names)


def test_crashed_call_releases_its_thread(worker, request_deploy, site):
    for _ in range(3):
        worker.submit("worker.nowhere.nothing")
    task_id = request_deploy()
    worker.submit("worker.engine.runner.run", task_id)
    worker.shutdown()
    assert read_task(task_id).status == "completed"


def test_submit_waits_while_all_threads_are_busy(worker, request_deploy, blocked_starts):
    tasks = [request_deploy() for _ in range(3)]
    for task_id in tasks[:2]:
        worker.submit("worker.engine.runner.run", task_id)
    third = threading.Thread(target=worker.submit, args=("worker.engine.runner.run", tasks[2]))
    third.start()
    assert blocked_starts.started.wait(WAIT_TIMEOUT_SECONDS)
    third.join(0.2)
    assert third.is_alive()
    assert read_task(tasks[2]).status == "queued"
    blocked_starts.released.set()
    third.join(WAIT_TIMEOUT_SECONDS)
    worker.shutdown()
    assert [read_task(task_id).status for task_id in tasks] == ["completed"] * 3


def test_starts_of_one_notification_share_one_claim(worker, request_deploy):
    """The batch makes one claim, not one for each task."""
    deploys = [request_deploy() for _ in range(3)]
    for task_id in deploys:
        worker.run(task_id)
    running_instances = session.scalars(select(Instance).where(Instance.deployed)).all()
    starts = []
    for action in ("poweroff", "start"):
        starts = [instances.run_power_action(instance, action, actor="test").id for instance in running_instances]
        session.commit()
        if action == "poweroff":
            for task_id in starts:
                worker.run(task_id)
            session.expire_all()
    claim, names = claiming.claim, []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(claiming, "claim", lambda *args: names.append(args) or claim(*args))
        worker.submit("worker.engine.runner.run", *starts)
        worker.shutdown()
    assert [read_task(task_id).status for task_id in starts] == ["completed"] * 3
    assert (names, worker.active_claims) == ([], set())
