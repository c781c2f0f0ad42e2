"""Faults at every changing node call of the tasks of warm pools, and of a create that takes a member.

Afterwards rows and node agree, the pool is full, and nothing is left over.
"""

import time
from datetime import timedelta

import pytest

from panel.core import clock, context
from panel.core.db import session
from panel.models import Microvm, MicrovmPool, MicrovmPoolMember, Task
from panel.models.tasks import OPEN_STATUSES
from tests.microvms.task_cases import POOL_KINDS
from worker.engine import runner
from worker.nodes.base import Power
from worker.nodes.simulated import SimulatedNode
from worker.sync import node_sync
from worker.tasks import microvm_pools as tasks

TASK_CASES = {
    "microvm_pool_boot": ["upload_media", "put_image", "create_disk", "define", "start", "save"],
    "microvm_pool_remove": ["delete", "delete_disk"],
}
CASES = [(kind, call) for kind, calls in TASK_CASES.items() for call in calls]
READING_CALLS = {"has_image", "open_channel"}


def test_cases_cover_every_kind():
    assert TASK_CASES.keys() == POOL_KINDS


@pytest.fixture
def make_pools_due(cast):
    """Return a function that lets everything be tried again at once."""

    def make_due():
        moment = clock.now() - timedelta(seconds=1)
        for row in session.query(MicrovmPool):
            row.next_boot_at = moment
        for row in session.query(MicrovmPoolMember):
            row.next_removal_at = moment
        session.commit()

    return make_due


@pytest.fixture
def recover(cast, node, manual_reaper, run_tasks, refill, make_pools_due):
    """Return a function that ends the faults and lets the reaper, the periodic jobs and the workers run."""

    def run():
        node.clear()
        node.ping()
        manual_reaper.advance(100)
        run_tasks()
        for _ in range(4):
            make_pools_due()
            refill()
        node_sync.reconcile(cast.node.id)
        session.expire_all()

    return run


def assert_consistent(node, names_on_node, members):
    left = session.query(Task).filter(Task.status.in_(OPEN_STATUSES) | Task.rollback_pending)
    assert [(task.kind, task.status, task.rollback_steps) for task in left] == []
    rows = session.query(MicrovmPoolMember).all()
    assert [row.state for row in rows] == ["ready"] * members
    microvms = session.query(Microvm).filter_by(ended_at=None).filter(Microvm.state != "failed").all()
    expected = [*rows, *microvms]
    assert names_on_node() == ({row.id for row in expected}, {row.disk_name for row in expected})
    assert all(node.has_saved_state(row.id) and node.power(row.id) is Power.off for row in rows)
    assert all(node.power(row.id) is Power.on and row.state == "running" for row in microvms)


@pytest.fixture
def request_task(refill, pool):
    """Return a function that requests a task of the kind, and the number of members that the pool has in the end."""

    def send(kind):
        if kind == "microvm_pool_remove":
            refill()
            refill()
            pool.count = 1
            session.commit()
        tasks.refill()
        session.commit()
        return session.query(Task).filter_by(kind=kind).one(), pool.count

    return send


@pytest.mark.parametrize("fault", ["lost-answer", "refuse", "killed"])
@pytest.mark.parametrize(("kind", "call"), CASES)
def test_pool_survives_fault_at_every_node_call(
    request_task, node, run_tasks, kill_worker_at, recover, names_on_node, kind, call, fault
):
    task, members = request_task(kind)
    if fault == "killed":
        kill_worker_at(task, call)
    else:
        node.fault(call, fault, 1)
        run_tasks()
    recover()
    assert_consistent(node, names_on_node, members)


def test_boot_of_a_silent_guest_ends_with_its_worker(
    request_task, node, run_tasks, recover, names_on_node, monkeypatch
):
    """Another worker begins again, as if the first one had not run the task."""
    task, members = request_task("microvm_pool_boot")
    with monkeypatch.context() as stopping:
        stopping.setattr(SimulatedNode, "serve_channel", staticmethod(be_silent))
        stopping.setattr(context.current(), "is_stopping", True)
        began_at = time.monotonic()
        runner.run(task.id, "stopping worker")
        assert time.monotonic() - began_at < 10
    task = session.get(Task, task.id, populate_existing=True)
    assert (task.status, task.worker, task.attempt, task.error) == ("queued", None, 0, None)
    assert session.query(MicrovmPool).one().failed_boots == 0
    run_tasks()
    task = session.get(Task, task.id, populate_existing=True)
    assert (task.status, task.attempt) == ("completed", 1)
    recover()
    assert_consistent(node, names_on_node, members)


def be_silent(channel):
    while channel.recv(4096):
        pass


@pytest.mark.parametrize("kind", TASK_CASES)
def test_cases_list_all_changing_calls(request_task, run_tasks, monkeypatch, kind):
    request_task(kind)
    calls = []
    for name in (*TASK_CASES["microvm_pool_boot"], *TASK_CASES["microvm_pool_remove"], *READING_CALLS, "update_nics"):
        real = getattr(SimulatedNode, name)
        monkeypatch.setattr(
            SimulatedNode,
            name,
            lambda self, *args, _name=name, _real=real, **kw: calls.append(_name) or _real(self, *args, **kw),
        )
    run_tasks()
    assert set(calls) - READING_CALLS == set(TASK_CASES[kind])


@pytest.mark.parametrize("fault", ["lost-answer", "refuse", "killed"])
def test_create_from_pool_survives_fault_at_the_start(
    filled_pool, call_api, microvm_body, node, run_tasks, kill_worker_at, recover, names_on_node, fault
):
    created = call_api("POST", "vms", **microvm_body).json["vm"]
    task = session.query(Task).filter_by(kind="microvm_create").one()
    if fault == "killed":
        kill_worker_at(task, "start")
    else:
        node.fault("start", fault, 1)
        run_tasks()
    recover()
    assert_consistent(node, names_on_node, 2)
    expected = "failed" if fault == "lost-answer" else "running"
    assert session.get(Microvm, created["id"]).state == expected
