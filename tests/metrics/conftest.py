"""Fixtures of the metrics tests: a running instance, a clock that the test moves, and polls of the node."""

from datetime import timedelta

import pytest
from sqlalchemy import select

from panel.core import clock
from panel.core.db import session
from panel.models import GuestInfo, Hypervisor, InstanceMetric
from panel.services import instances
from panel.services import metrics as services_metrics
from tests.support.metrics import SAMPLE
from worker.sync import metrics, node_sync

FILESYSTEMS = [
    {"mountpoint": "/", "kind": "ext4", "size": 800, "used": 200},
    {"mountpoint": "/var", "kind": "ext4", "size": 200, "used": 50},
]


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
    """The wall clock and the monotonic clock. The wall clock starts at a full hour, more than an hour after now: what
    was created before is older than the shortest time ranges."""

    def __init__(self, start):
        self.wall, self.monotonic = start, 0.0

    def advance(self, seconds):
        self.wall += timedelta(seconds=seconds)
        self.monotonic += seconds


@pytest.fixture
def fake_time(monkeypatch):
    start = (clock.now() + timedelta(hours=2)).replace(minute=0, second=0, microsecond=0)
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


@pytest.fixture
def measure(cast):
    """Return a function that stores a sample of an instance: `measure(instance, age_seconds=15, cpu_percent=1.0)`."""

    def store(instance, age_seconds=0, **values):
        services_metrics.write({instance.id: SAMPLE | values}, clock.now().timestamp() - age_seconds)
        session.commit()

    return store


@pytest.fixture
def add_measured(cast, measure):
    """Return a function that adds an instance which runs and was measured just now."""

    def add(**values):
        instance = cast.instance(**values)
        instance.deployed, instance.power, instance.ram = True, "on", 512
        instance.power_reported_at = clock.now() - timedelta(hours=1)
        session.get(Hypervisor, instance.hypervisor_id).status = "up"
        session.add(GuestInfo(instance_id=instance.id, at=clock.now(), filesystems=FILESYSTEMS))
        session.flush()
        measure(instance)
        return instance

    return add
