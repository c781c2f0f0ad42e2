"""Claims that are made in the same moment, each in a transaction of its own."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from sqlalchemy import select

from panel.core import jobs
from panel.core.db import new_id, session
from panel.models import Event, Task
from panel.services import instances
from tests.support.isolated_app import isolated_installation
from worker.engine import claiming, main, reaper, runner
from worker.nodes.base import Power
from worker.sync import node_sync

COUNT = 8
assert main.HANDLER_MODULES  # what registers the tasks


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    with isolated_installation(tmp_path_factory.mktemp("site")) as app:
        yield app


@pytest.fixture
def context(site):
    with site.app_context():
        yield
        session.rollback()
        session.query(Task).delete()
        session.commit()


@pytest.fixture
def instance(site, context):
    cast = site.cast

    def instance():
        wanted = {"location_id": cast.location.id, "plan_id": cast.plan.id, "actor": "test"}
        return instances.create(session.merge(cast.owner), **wanted)

    return instance


@pytest.fixture
def add_task(context):
    def add(instance, lock):
        values = {"actor": "test", "hypervisor_id": instance.hypervisor_id}
        made = jobs.enqueue("instance_poweroff", "instance", instance, lock=lock, **values)
        session.commit()
        return made.id

    return add


@pytest.fixture
def run_in_parallel(site):
    """Calls with each argument in the same moment; gives what was returned."""

    def at_once(call, arguments):
        start = Barrier(len(arguments))

        def one(argument):
            with site.app_context():
                start.wait()
                return call(argument)

        with ThreadPoolExecutor(len(arguments)) as threads:
            return list(threads.map(one, arguments))

    return at_once


def is_claimed(task_id):
    return claiming.claim(task_id, new_id()) is not None


def test_one_row_has_one_worker(instance, add_task, run_in_parallel):
    row = add_task(instance(), "exclusive")
    assert run_in_parallel(is_claimed, [row] * COUNT).count(True) == 1
    assert session.get(Task, row, populate_existing=True).attempt == 1


def test_storage_tasks_of_a_resource_run_one_at_a_time(instance, add_task, run_in_parallel):
    made = instance()
    assert run_in_parallel(is_claimed, [add_task(made, "storage") for _ in range(COUNT)]).count(True) == 1


def test_light_tasks_run_together_or_an_exclusive_one_alone(instance, add_task, run_in_parallel):
    made = instance()
    alone, *light = [add_task(made, lock) for lock in ("exclusive", *["light"] * (COUNT - 1))]
    first, *others = run_in_parallel(is_claimed, [alone, *light])
    assert first != any(others)


def test_a_node_carries_no_more_than_it_may(site, instance, add_task, run_in_parallel):
    node = session.merge(site.cast.node)
    node.max_tasks = 3
    rows = [add_task(instance(), "storage") for _ in range(COUNT)]
    assert run_in_parallel(is_claimed, rows).count(True) == 3


def test_one_worker_runs_the_remaining_rollback_steps(instance, add_task, run_in_parallel):
    """By the sweep's bells or by the next task, whichever comes first."""
    made = instance()
    left = add_task(made, "exclusive")
    claiming.claim(left, "first")
    work = runner.TaskContext(session.get(Task, left), "first")
    runner.finish(work, "failed", rollback_steps=[["delete", made.id]], rollback_pending=True)
    following = add_task(made, "exclusive")
    run_in_parallel(is_claimed, [left, following] * 3)
    rows = [session.get(Task, row, populate_existing=True) for row in (left, following)]
    assert sorted((row.rollback_steps, bool(row.worker)) for row in rows) == [
        ([], False),
        ([["delete", made.id]], True),
    ]


def test_a_change_that_many_tell_of_is_one_event(instance, run_in_parallel):
    made = instance()
    made.deployed, made.power = True, "on"
    session.commit()
    run_in_parallel(lambda _: node_sync.on_power_event(made.hypervisor_id, made.id, Power.off), range(COUNT))
    found = select(Event.kind).where(Event.resource_id == made.id)
    assert session.scalars(found).all().count("instance.status_changed") == 1


def test_two_reapers_requeue_a_task_once(instance, add_task, run_in_parallel):
    row = add_task(instance(), "exclusive")
    lost = claiming.claim(row, "lost")
    run_in_parallel(lambda _: reaper.requeue_or_fail(row, "lost", lost.heartbeat_at), range(COUNT))
    found = session.get(Task, row, populate_existing=True)
    assert (found.status, found.worker, len(found.logs)) == ("queued", None, 1)
