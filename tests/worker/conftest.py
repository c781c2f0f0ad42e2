"""Fixtures of the worker tests: deploy requests, injected faults, killed workers, and a reaper with manual time."""

from contextlib import contextmanager

import pytest
from sqlalchemy import select

from panel.core.db import session
from panel.models import Event, Instance, Task
from panel.services import instances
from worker.engine import batch, reaper, runner
from worker.nodes.simulated import SimulatedNode


@pytest.fixture
def node(short_deadline_node):
    return short_deadline_node


@pytest.fixture
def request_deploy(cast, node):
    """Return a function that requests a deploy of a new or the given instance: `instance, task = request_deploy()`."""

    def request(instance=None):
        instance = instance or cast.instance()
        task, _ = instances.deploy(instance, image_id=cast.image.id, actor="owner@example.com")
        session.commit()
        return instance, task

    return request


@pytest.fixture
def long_batch_deadline(monkeypatch):
    """Batches whose deadline no slow node or machine reaches."""
    monkeypatch.setattr(batch, "BATCH_DEADLINE_SECONDS", 600)


@pytest.fixture
def running_instance(request_deploy, run_tasks):
    """A deployed instance that runs."""
    instance, _ = request_deploy()
    run_tasks()
    assert instance.state == "running"
    return instance


@pytest.fixture
def request_action():
    """Return a function that requests an action on an instance and returns the task."""

    def request(instance, action):
        call = getattr(instances, action, None) or (
            lambda *args, **options: instances.run_power_action(instance, action, **options)
        )
        task = call(instance, actor="owner@example.com")
        session.commit()
        return task

    return request


class WorkerKilled(BaseException):
    """Ends a worker as SIGKILL does: no handler catches it."""


@pytest.fixture
def fault_at(monkeypatch):
    """Return a context manager that calls `then` before a node operation, or after it with `after=True`:
    `with fault_at("start", then=call)`."""

    @contextmanager
    def patch_operation(operation, then, *, after=False):
        real = getattr(SimulatedNode, operation)

        def call_with_fault(self, *args, **kwargs):
            if not after:
                then()
            result = real(self, *args, **kwargs)
            if after:
                then()
            return result

        with monkeypatch.context() as patched:
            patched.setattr(SimulatedNode, operation, call_with_fault)
            yield

    return patch_operation


@pytest.fixture
def kill_worker_at(fault_at):
    """Return a function that runs a task in a worker that is killed before or after the effect of a node operation."""

    def run_and_kill(task, operation, *, after=True):
        def kill():
            raise WorkerKilled

        with fault_at(operation, kill, after=after), pytest.raises(WorkerKilled):
            runner.run(task.id, f"worker of {operation}")
        session.rollback()

    return run_and_kill


class ManualReaper(reaper.Reaper):
    """A reaper that runs every five seconds of a time that only `advance` moves."""

    time = 0.0

    def advance(self, seconds):
        """Move the time and run the reaper. No heartbeats are written meanwhile."""
        for _ in range(round(seconds / 5)):
            ManualReaper.time += 5
            self()
        session.expire_all()


@pytest.fixture
def manual_reaper(rolled_back_app, monkeypatch):
    monkeypatch.setattr(reaper, "monotonic", lambda: ManualReaper.time)
    monkeypatch.setattr(reaper, "get_queue_length", lambda: 0)
    return ManualReaper()


@pytest.fixture
def event_kinds():
    """Return a function that lists the kinds of the events of a resource, oldest first."""

    def list_kinds(resource):
        query = select(Event.kind).where(Event.resource_id == resource.id).order_by(Event.id)
        return session.scalars(query).all()

    return list_kinds


@pytest.fixture
def names_on_node(node):
    """Return a function that lists the names of the machines, and of the disks without images, on the node."""

    def list_names():
        disks = {disk.name for disk in node.disks("default")}
        return {machine.name for machine in node.machines()}, {name for name in disks if name.startswith("h")}

    return list_names


@pytest.fixture
def reload_task():
    """Return a function that reads a task again from the database."""
    return lambda task: session.get(Task, task.id, populate_existing=True)


@pytest.fixture
def reload():
    """Return a function that reads an instance again from the database."""
    return lambda instance: session.get(Instance, instance.id, populate_existing=True)
