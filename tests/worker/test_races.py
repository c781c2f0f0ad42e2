"""Concurrent claims, each in its own transaction."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from sqlalchemy import select

from panel.core import jobs
from panel.core.db import generate_id, session
from panel.models import Event, Task
from panel.services import instances
from tests.support.isolated_app import isolated_installation
from worker.engine import claiming, main, reaper, runner
from worker.nodes.base import Power
from worker.sync import node_sync

PARALLEL_CALLS = 8
assert main.HANDLER_MODULES  # importing it registers the task handlers


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    with isolated_installation(tmp_path_factory.mktemp("site")) as app:
        yield app


@pytest.fixture
def app_context(site):
    with site.app_context():
        yield
        session.rollback()
        session.query(Task).delete()
        session.commit()


@pytest.fixture
def create_instance(site, app_context):
    cast = site.cast

    def create():
        placement = {"location_id": cast.location.id, "plan_id": cast.plan.id, "actor": "test"}
        return instances.create(session.merge(cast.owner), **placement)

    return create


@pytest.fixture
def add_task(app_context):
    def add(instance, lock):
        values = {"actor": "test", "hypervisor_id": instance.hypervisor_id}
        task = jobs.enqueue("instance_poweroff", "instance", instance, lock=lock, **values)
        session.commit()
        return task.id

    return add


@pytest.fixture
def run_in_parallel(site):
    """Return a function that calls with each argument at the same time and returns the results."""

    def run(call, arguments):
        start = Barrier(len(arguments))

        def call_in_context(argument):
            with site.app_context():
                start.wait()
                return call(argument)

        with ThreadPoolExecutor(len(arguments)) as threads:
            return list(threads.map(call_in_context, arguments))

    return run


def is_claimed(task_id):
    return claiming.claim(task_id, generate_id()) is not None


def test_task_is_claimed_by_one_worker(create_instance, add_task, run_in_parallel):
    task_id = add_task(create_instance(), "exclusive")
    assert run_in_parallel(is_claimed, [task_id] * PARALLEL_CALLS).count(True) == 1
    assert session.get(Task, task_id, populate_existing=True).attempt == 1


def test_storage_tasks_of_a_resource_run_one_at_a_time(create_instance, add_task, run_in_parallel):
    instance = create_instance()
    assert run_in_parallel(is_claimed, [add_task(instance, "storage") for _ in range(PARALLEL_CALLS)]).count(True) == 1


def test_exclusive_task_excludes_light_tasks(create_instance, add_task, run_in_parallel):
    instance = create_instance()
    exclusive_task, *light_tasks = [
        add_task(instance, lock) for lock in ("exclusive", *["light"] * (PARALLEL_CALLS - 1))
    ]
    first, *others = run_in_parallel(is_claimed, [exclusive_task, *light_tasks])
    assert first != any(others)


def test_node_task_limit_holds_for_parallel_claims(site, create_instance, add_task, run_in_parallel):
    node = session.merge(site.cast.node)
    node.max_tasks = 3
    task_ids = [add_task(create_instance(), "storage") for _ in range(PARALLEL_CALLS)]
    assert run_in_parallel(is_claimed, task_ids).count(True) == 3


def test_one_worker_runs_the_remaining_rollback_steps(create_instance, add_task, run_in_parallel):
    """The reaper's notification or the next task starts them, whichever comes first."""
    instance = create_instance()
    task_id = add_task(instance, "exclusive")
    claiming.claim(task_id, "first")
    work = runner.TaskContext(session.get(Task, task_id), "first")
    runner.finish(work, "failed", rollback_steps=[["delete", instance.id]], rollback_pending=True)
    next_task_id = add_task(instance, "exclusive")
    run_in_parallel(is_claimed, [task_id, next_task_id] * 3)
    rows = [session.get(Task, task, populate_existing=True) for task in (task_id, next_task_id)]
    assert sorted((task.rollback_steps, bool(task.worker)) for task in rows) == [
        ([], False),
        ([["delete", instance.id]], True),
    ]


def test_concurrent_power_reports_record_one_event(create_instance, run_in_parallel):
    instance = create_instance()
    instance.deployed, instance.power = True, "on"
    session.commit()
    run_in_parallel(
        lambda _: node_sync.on_power_event(instance.hypervisor_id, instance.id, Power.off), range(PARALLEL_CALLS)
    )
    query = select(Event.kind).where(Event.resource_id == instance.id)
    assert session.scalars(query).all().count("instance.status_changed") == 1


def test_concurrent_reapers_requeue_task_once(create_instance, add_task, run_in_parallel):
    task_id = add_task(create_instance(), "exclusive")
    lost = claiming.claim(task_id, "lost")
    run_in_parallel(lambda _: reaper.requeue_or_fail(task_id, "lost", lost.heartbeat_at), range(PARALLEL_CALLS))
    task = session.get(Task, task_id, populate_existing=True)
    assert (task.status, task.worker, len(task.logs)) == ("queued", None, 1)
