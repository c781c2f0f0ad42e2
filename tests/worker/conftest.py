"""What tests of the workers need: machines on order, workers that die, a sweep whose time they hold in hand."""

from contextlib import contextmanager

import pytest
from sqlalchemy import select

from panel.core.db import session
from panel.models import Event, Instance, Task
from panel.services import instances
from worker.engine import reaper, runner
from worker.nodes.simulated import SimulatedNode


@pytest.fixture
def node(short_deadline_node):
    return short_deadline_node


@pytest.fixture
def order(cast, node):
    """A new instance of the owner whose deploy waits for a worker, and the task."""

    def order(instance=None):
        instance = instance or cast.instance()
        asked, _ = instances.deploy(instance, image_id=cast.image.id, actor="owner@example.com")
        session.commit()
        return instance, asked

    return order


@pytest.fixture
def machine(order, run_tasks):
    """A deployed instance that runs."""
    instance, _ = order()
    run_tasks()
    assert instance.state == "running"
    return instance


@pytest.fixture
def request_action():
    """Asks for an action on an instance; gives the task."""

    def act(instance, action):
        asked = getattr(instances, action, None) or (
            lambda *args, **who: instances.run_power_action(instance, action, **who)
        )
        asked = asked(instance, actor="owner@example.com")
        session.commit()
        return asked

    return act


class WorkerKilled(BaseException):
    """As SIGKILL: nothing of the worker goes on after it."""


@pytest.fixture
def fault_at(monkeypatch):
    """What happens at a call of the node: `with at("start", then=call)` before the real one, `after=True` after it."""

    @contextmanager
    def at(operation, then, *, after=False):
        real = getattr(SimulatedNode, operation)

        def met(self, *args, **kwargs):
            if not after:
                then()
            result = real(self, *args, **kwargs)
            if after:
                then()
            return result

        with monkeypatch.context() as patched:
            patched.setattr(SimulatedNode, operation, met)
            yield

    return at


@pytest.fixture
def kill_worker_at(fault_at):
    """Runs a task in a worker that is killed at the call of the node, before or after it had its effect."""

    def die(row, operation, *, after=True):
        def kill():
            raise WorkerKilled

        with fault_at(operation, kill, after=after), pytest.raises(WorkerKilled):
            runner.run(row.id, f"worker of {operation}")
        session.rollback()

    return die


class ManualReaper(reaper.Reaper):
    """A sweep every five seconds of a time that passes on command."""

    time = 0.0

    def advance(self, seconds):
        """Lets time pass; workers that are alive go on, dead ones do not."""
        for _ in range(round(seconds / 5)):
            ManualReaper.time += 5
            self()
        session.expire_all()


@pytest.fixture
def manual_reaper(rolled_back_app, monkeypatch):
    monkeypatch.setattr(reaper, "monotonic", lambda: ManualReaper.time)
    monkeypatch.setattr(reaper, "queue_length", lambda: 0)
    return ManualReaper()


@pytest.fixture
def event_kinds():
    """The kinds of the events of a resource, oldest first."""

    def kinds(resource):
        found = select(Event.kind).where(Event.resource_id == resource.id).order_by(Event.id)
        return session.scalars(found).all()

    return kinds


@pytest.fixture
def names_on_node(node):
    """The names of the machines and of the disks that are not images, as the node lists them."""

    def on_node():
        disks = {disk.name for disk in node.disks("default")}
        return {machine.name for machine in node.machines()}, {name for name in disks if name.startswith("h")}

    return on_node


@pytest.fixture
def reload_task():
    """A task as it is now."""
    return lambda task: session.get(Task, task.id, populate_existing=True)


@pytest.fixture
def reload():
    """An instance as it is now."""
    return lambda instance: session.get(Instance, instance.id, populate_existing=True)
