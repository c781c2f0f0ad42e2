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
def machine(order, work):
    """A deployed instance that runs."""
    instance, _ = order()
    work()
    assert instance.state == "running"
    return instance


@pytest.fixture
def act():
    """Asks for an action on an instance; gives the task."""

    def act(instance, action):
        asked = getattr(instances, action, None) or (lambda *args, **who: instances.act(instance, action, **who))
        asked = asked(instance, actor="owner@example.com")
        session.commit()
        return asked

    return act


class Killed(BaseException):
    """As SIGKILL: nothing of the worker goes on after it."""


@pytest.fixture
def at(monkeypatch):
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
def die(at):
    """Runs a task in a worker that is killed at the call of the node, before or after it had its effect."""

    def die(row, operation, *, after=True):
        def kill():
            raise Killed

        with at(operation, kill, after=after), pytest.raises(Killed):
            runner.run(row.id, f"worker of {operation}")
        session.rollback()

    return die


class Sweeping(reaper.Sweep):
    """A sweep every five seconds of a time that passes on command."""

    time = 0.0

    def passes(self, seconds):
        """Lets time pass; workers that are alive go on, dead ones do not."""
        for _ in range(round(seconds / 5)):
            Sweeping.time += 5
            self()
        session.expire_all()


@pytest.fixture
def sweeping(world, monkeypatch):
    monkeypatch.setattr(reaper, "monotonic", lambda: Sweeping.time)
    monkeypatch.setattr(reaper, "bells", lambda: 0)
    return Sweeping()


@pytest.fixture
def kinds():
    """The kinds of the events of a resource, oldest first."""

    def kinds(resource):
        found = select(Event.kind).where(Event.resource_id == resource.id).order_by(Event.id)
        return session.scalars(found).all()

    return kinds


@pytest.fixture
def on_node(node):
    """The names of the machines and of the disks that are not images, as the node lists them."""

    def on_node():
        disks = {disk.name for disk in node.disks("default")}
        return {machine.name for machine in node.machines()}, {name for name in disks if name.startswith("h")}

    return on_node


@pytest.fixture
def row():
    """A task as it is now."""
    return lambda task: session.get(Task, task.id, populate_existing=True)


@pytest.fixture
def again():
    """An instance as it is now."""
    return lambda instance: session.get(Instance, instance.id, populate_existing=True)
