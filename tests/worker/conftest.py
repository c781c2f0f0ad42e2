"""Fixtures of the worker tests: deploy requests, fresh rows, and what is on the node."""

import pytest
from sqlalchemy import select

from panel.core.db import session
from panel.models import Event, Instance, Task
from panel.services import instances
from tests.support.worker_faults import fault_at, kill_worker_at, manual_reaper  # noqa: F401  (fixtures)
from worker.engine import batch


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
