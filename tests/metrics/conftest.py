"""Machines whose time passes on command, and looks at them."""

from datetime import timedelta

import pytest
from sqlalchemy import select

from panel.core import clock
from panel.core.db import session
from panel.models import InstanceMetric
from panel.services import instances
from worker.sync import metrics, node_sync


@pytest.fixture
def machine(cast, node, run_tasks):
    """A deployed instance that runs."""
    instance = cast.instance()
    instances.deploy(instance, image_id=cast.image.id, actor="test")
    session.commit()
    run_tasks()
    assert instance.state == "running"
    return instance


class FakeTime:
    """The clock on the wall and the one that nobody sets. They begin at a full hour."""

    def __init__(self, begin):
        self.wall, self.steady = begin, 0.0

    def advance(self, seconds):
        self.wall += timedelta(seconds=seconds)
        self.steady += seconds


@pytest.fixture
def fake_time(monkeypatch):
    begin = (clock.now() + timedelta(hours=1)).replace(minute=0, second=0, microsecond=0)
    moved = FakeTime(begin)
    monkeypatch.setattr(clock, "now", lambda: moved.wall)
    monkeypatch.setattr(metrics, "monotonic", lambda: moved.steady)
    return moved


@pytest.fixture
def poll_node(cast, fake_time):
    """Looks at all machines of the node, every ten seconds while `seconds` pass."""

    def look(seconds=0):
        node_sync.reconcile(cast.node.id)
        for _ in range(int(seconds) // 10):
            fake_time.advance(10)
            node_sync.reconcile(cast.node.id)
        session.expire_all()

    return look


@pytest.fixture
def metric_rows():
    """The rows of an instance at a step, oldest first."""

    def rows(instance, step=15):
        kept = select(InstanceMetric).where(InstanceMetric.instance_id == instance.id, InstanceMetric.step == step)
        return session.scalars(kept.order_by(InstanceMetric.at)).all()

    return rows
