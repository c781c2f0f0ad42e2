"""A worker process at work: many calls at once, heartbeats, and bells that ring again."""

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
    made = pool.TaskPool(site, 2, heartbeat_interval=0.02)
    yield made
    made.shutdown()


@pytest.fixture
def order(site):
    def order():
        cast = site.cast
        wanted = {"location_id": cast.location.id, "plan_id": cast.plan.id, "actor": "test"}
        made = instances.create(session.merge(cast.owner), **wanted)
        task, _ = instances.deploy(made, image_id=cast.image.id, actor="test")
        session.commit()
        return task.id

    return order


@pytest.fixture
def held_starts(monkeypatch):
    """Starts of machines wait until `free` is set; `there` is set when one begins."""

    class Held:
        there, free = threading.Event(), threading.Event()

    def start(self, machine_id, real=SimulatedNode.start):
        Held.there.set()
        assert Held.free.wait(WAIT_TIMEOUT_SECONDS)
        real(self, machine_id)

    monkeypatch.setattr(SimulatedNode, "start", start)
    yield Held
    Held.free.set()


def read_task(task_id):
    found = session.execute(select(Task.__table__).where(Task.id == task_id)).one()
    session.rollback()
    return found


def wait_for_heartbeat(task_id):
    """Waits for a heartbeat."""
    before, waited = read_task(task_id).heartbeat_at, threading.Event()
    for _ in range(WAIT_TIMEOUT_SECONDS * 20):
        if read_task(task_id).heartbeat_at != before:
            return True
        waited.wait(0.05)
    return False


def test_a_claimed_task_keeps_its_heartbeat_after_a_second_notification(worker, order, held_starts):
    task_id = order()
    worker.submit("worker.engine.runner.run", task_id)
    assert held_starts.there.wait(WAIT_TIMEOUT_SECONDS)
    assert wait_for_heartbeat(task_id)
    worker.run(task_id)  # a second bell finds it taken, and must not let it go
    assert len(worker.active_claims) == 1
    assert wait_for_heartbeat(task_id)
    held_starts.free.set()
    worker.shutdown()
    assert (read_task(task_id).status, read_task(task_id).attempt, worker.active_claims) == ("completed", 1, set())


def test_every_claim_has_a_name_of_its_own(worker, order):
    """Two attempts of one task in one process must not be taken for each other."""
    names = []
    claim = claiming.claim

    def note(task_id, name):
        names.append(name)
        return claim(task_id, name)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(claiming, "claim", note)
        task_id = order()
        for _ in range(3):
            worker.run(task_id)
    assert len(set(names)) == 3
    assert all(name.startswith(worker.worker) and len(name) <= 64 for name in names)


def test_a_call_that_crashes_frees_its_thread(worker, order, site):
    for _ in range(3):
        worker.submit("worker.nowhere.nothing")
    task_id = order()
    worker.submit("worker.engine.runner.run", task_id)
    worker.shutdown()
    assert read_task(task_id).status == "completed"


def test_submit_waits_while_all_threads_are_busy(worker, order, held_starts):
    tasks = [order() for _ in range(3)]
    for task_id in tasks[:2]:
        worker.submit("worker.engine.runner.run", task_id)
    third = threading.Thread(target=worker.submit, args=("worker.engine.runner.run", tasks[2]))
    third.start()
    assert held_starts.there.wait(WAIT_TIMEOUT_SECONDS)
    third.join(0.2)
    assert third.is_alive()
    assert read_task(tasks[2]).status == "queued"
    held_starts.free.set()
    third.join(WAIT_TIMEOUT_SECONDS)
    worker.shutdown()
    assert [read_task(task_id).status for task_id in tasks] == ["completed"] * 3


def test_starts_of_one_notification_share_one_claim(worker, order):
    """Starts of several machines: one claim, and one name for it."""
    deploys = [order() for _ in range(3)]
    for task_id in deploys:
        worker.run(task_id)
    machines = session.scalars(select(Instance).where(Instance.deployed)).all()
    starts = []
    for action in ("poweroff", "start"):
        starts = [instances.run_power_action(machine, action, actor="test").id for machine in machines]
        session.commit()
        if action == "poweroff":
            for task_id in starts:
                worker.run(task_id)
            session.expire_all()
    claim, names = claiming.claim, []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(claiming, "claim", lambda *told: names.append(told) or claim(*told))
        worker.submit("worker.engine.runner.run", *starts)
        worker.shutdown()
    assert [read_task(task_id).status for task_id in starts] == ["completed"] * 3
    assert (names, worker.active_claims) == ([], set())
