"""What micro VMs use: MVM-05."""

from dataclasses import replace
from datetime import timedelta

import pytest

from panel.core import clock
from panel.core.db import session
from panel.models import InstanceMetric
from worker.sync import metrics


@pytest.fixture
def record_samples(cast, node):
    """Return a function that records two samples of the node with half a minute between them."""

    def record():
        now = clock.now()
        machines = {
            number: {
                machine.id: replace(machine, cpu_seconds=1.0 + 3 * number, memory_used=2**28, guest_memory=None)
                for machine in node.machines()
            }
            for number in (0, 1)
        }
        metrics.last_samples.clear()
        for number in (0, 1):
            at = now - timedelta(seconds=30 - 30 * number)
            metrics.record_sample(cast.node.id, metrics.NodeSample(at, machines[number], clock=100.0 + 30 * number))
        metrics.last_samples.clear()
        session.expire_all()

    return record


def test_metrics_are_those_of_the_last_samples(microvm, call_api, record_samples):
    path = f"vm/{microvm.id}/metrics"
    assert call_api("GET", path).json["metrics"] is None
    updated_at = microvm.updated_at
    record_samples()
    assert session.query(InstanceMetric).count() == 0
    usage = call_api("GET", path).json["metrics"]
    assert (usage["cpu_percent"], usage["memory_used"]) == (10.0, 256.0)
    assert microvm.updated_at == updated_at


def test_metrics_of_microvm_that_does_not_run_are_null(microvm, call_api, record_samples, request_action, run_tasks):
    record_samples()
    request_action(microvm, "pause")
    run_tasks()
    assert call_api("GET", f"vm/{microvm.id}/metrics").json["metrics"] is None


def test_old_metrics_are_not_shown(microvm, call_api, record_samples):
    record_samples()
    microvm.usage = {**microvm.usage, "at": microvm.usage["at"] - 100}
    session.commit()
    assert call_api("GET", f"vm/{microvm.id}/metrics").json["metrics"] is None


def test_samples_take_constant_number_of_statements(create_microvm, record_samples, queries):
    counts = []
    for _ in range(2):
        create_microvm()
        queries.clear()
        record_samples()
        counts.append(len(queries))
    assert counts[0] == counts[1]
