"""Fixtures of the metrics tests: a running instance, a clock that the test moves, and polls of the node."""

from datetime import timedelta

import pytest
from sqlalchemy import select

from panel.core import clock
from panel.core.db import session
from panel.models import InstanceMetric
from panel.services import instances
from worker.sync import metrics, node_sync


@pytest.fixture
def running_instance(cast, node, run_tasks):
    """A deployed instance that runs."""
    instance = cast.instance()
    instances.deploy(instance, image_id=cast.image.id, actor="test")
    session.commit()
    run_tasks()
    assert instance.state == "running"
    return instance


class FakeTime:
    """The wall clock and the monotonic clock. The wall clock starts at a full hour."""

    def __init__(self, start):
        self.wall, self.monotonic = start, 0.0

    def advance(self, seconds):
        self.wall += timedelta(seconds=seconds)
        self.monotonic += seconds


@pytest.fixture
def fake_time(monkeypatch):
    start = (clock.now() + timedelta(hours=1)).replace(minute=0, second=0, microsecond=0)
    clocks = FakeTime(start)
    monkeypatch.setattr(clock, "now", lambda: clocks.wall)
    monkeypatch.setattr(metrics, "monotonic", lambda: clocks.monotonic)
    return clocks


@pytest.fixture
def poll_node(cast, fake_time):
    """Return a function that polls all machines of the node, every ten seconds for `seconds`."""

    def poll(seconds=0):
        node_sync.reconcile(cast.node.id)
        for _ in range(int(seconds) // 10):
            fake_time.advance(10)
            node_sync.reconcile(cast.node.id)
        session.expire_all()

    return poll


@pytest.fixture
def metric_rows():
    """Return a function that lists the metric rows of an instance with one step, oldest first."""

    def list_rows(instance, step=15):
        query = select(InstanceMetric).where(InstanceMetric.instance_id == instance.id, InstanceMetric.step == step)
        return session.scalars(query.order_by(InstanceMetric.at)).all()

    return list_rows
