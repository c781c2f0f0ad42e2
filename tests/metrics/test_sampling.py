"""Which samples workers store after polls of a node, and which they leave out."""

from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

import pytest
from sqlalchemy import delete, select

from panel.core.db import session
from panel.models import Hypervisor, HypervisorMetric, Instance
from panel.models.metrics import METRIC_NAMES, SLOTS_BY_STEP
from worker.nodes.base import HostUsage, MachineStatus, Power
from worker.sync import metrics, node_sync


def test_one_sample_is_stored_every_fifteen_seconds(running_instance, poll_node, metric_rows, fake_time):
    """The node is polled every ten seconds; each step gets one sample, and none is missing."""
    poll_node(300)
    rows = metric_rows(running_instance)
    times = [row.at for row in rows]
    assert len(times) >= 19
    assert {later - earlier for earlier, later in pairwise(times)} == {15}
    assert all(getattr(row, name) > 0 for row in rows for name in METRIC_NAMES)
    assert all(0 < row.cpu_percent < 100 and 0 < row.memory_used <= running_instance.ram for row in rows)


def test_samples_agree_with_node_counters(running_instance, poll_node, metric_rows, node, fake_time):
    poll_node(60)
    before = {machine.id: machine for machine in node.machines()}[running_instance.id]
    poll_node(60)
    after = {machine.id: machine for machine in node.machines()}[running_instance.id]
    mac = running_instance.interfaces[0].mac
    last = metric_rows(running_instance)[-4:]
    mean = sum(row.network_receive_mbps for row in last) / 4
    assert mean == pytest.approx((after.received[mac] - before.received[mac]) / 60 / 125_000, rel=0.15)
    mean = sum(row.cpu_percent for row in last) / 4
    assert mean == pytest.approx(100 * (after.cpu_seconds - before.cpu_seconds) / 60, rel=0.15)
    assert last[0].memory_used == pytest.approx(after.guest_memory / 1024**2)


def test_stopped_instance_leaves_gap(running_instance, poll_node, metric_rows, node, fake_time):
    poll_node(60)
    node.guest_powers_off(running_instance.id)
    poll_node(120)
    node.external_start(running_instance.id)
    poll_node(60)
    times = [row.at for row in metric_rows(running_instance)]
    assert max(later - earlier for earlier, later in pairwise(times)) >= 120


def test_reset_counters_are_not_stored(running_instance, poll_node, metric_rows, node, fake_time):
    """The instance was off and on between two polls: no negative value and no peak is stored."""
    poll_node(60)
    row_count = len(metric_rows(running_instance))
    node.guest_powers_off(running_instance.id)
    node.external_start(running_instance.id)
    fake_time.advance(20)
    poll_node()
    assert len(metric_rows(running_instance)) == row_count
    poll_node(60)
    assert len(metric_rows(running_instance)) > row_count
    assert all(0 <= row.cpu_percent <= 100 for row in metric_rows(running_instance))


def test_silent_node_leaves_gap(running_instance, poll_node, metric_rows, fake_time):
    poll_node(60)
    row_count = len(metric_rows(running_instance))
    fake_time.advance(600)
    poll_node()
    assert len(metric_rows(running_instance)) == row_count
    poll_node(30)
    assert len(metric_rows(running_instance)) > row_count


def test_clock_jumps_do_not_change_samples(running_instance, cast, metric_rows, fake_time):
    """Durations are measured by a monotonic clock: ten seconds of work stay ten seconds when the wall clock jumps."""

    def record_sample(cpu_seconds):
        status = MachineStatus(
            running_instance.id, running_instance.name, Power.on, cpu_seconds=cpu_seconds, memory_used=2**20
        )
        metrics.record_sample(cast.node.id, metrics.NodeSample(fake_time.wall, {running_instance.id: status}))

    record_sample(100.0)
    fake_time.advance(10)
    fake_time.wall += timedelta(hours=1)
    record_sample(105.0)
    fake_time.advance(10)
    fake_time.wall -= timedelta(hours=2)
    record_sample(110.0)
    assert [round(row.cpu_percent) for row in metric_rows(running_instance)] == [50, 50]


def test_missing_disk_counters_are_not_taken_as_reset(running_instance):
    """libvirt leaves counters out rather than wait: a missing counter is not a reset one."""
    first = MachineStatus(
        running_instance.id, running_instance.name, Power.on, cpu_seconds=50, disk_read=10**12, disk_reads=10**9
    )
    incomplete = replace(first, cpu_seconds=51, disk_read=0, disk_reads=0)
    third = replace(first, cpu_seconds=52)
    assert not metrics.is_measurable(first, replace(first, cpu_seconds=0))
    assert not metrics.is_measurable(replace(first, cpu_seconds=0), first)
    for pair in ((first, incomplete), (incomplete, third)):
        assert metrics.is_measurable(*pair)
        assert metrics.compute_usage(*pair, 15, 1, 512)["disk_read_bytes"] == 0


def test_longer_steps_store_average_and_maximum(running_instance, poll_node, metric_rows, fake_time):
    poll_node(1800)
    rows_15s, rows_5m, rows_1h = (metric_rows(running_instance, step) for step in SLOTS_BY_STEP)
    assert len(rows_5m) in (6, 7)
    assert len(rows_1h) in (1, 2)
    step_rows = [row for row in rows_15s if rows_5m[3].at <= row.at < rows_5m[4].at]
    assert len(step_rows) == 20
    assert rows_5m[3].cpu_percent == pytest.approx(sum(row.cpu_percent for row in step_rows) / 20, rel=1e-3)
    assert rows_5m[3].cpu_percent_max == pytest.approx(max(row.cpu_percent for row in step_rows), rel=1e-3)
    assert rows_1h[0].cpu_percent_max == pytest.approx(max(row.cpu_percent_max for row in rows_5m), rel=0.2)


def test_metric_rows_are_limited_by_ring_buffer(running_instance, poll_node, metric_rows, fake_time, monkeypatch):
    """New samples replace the oldest, so the table does not grow."""
    monkeypatch.setitem(SLOTS_BY_STEP, 15, 40)
    poll_node(900)
    row_count = len(metric_rows(running_instance))
    oldest = metric_rows(running_instance)[0].at
    poll_node(300)
    assert 35 < row_count <= 40
    assert len(metric_rows(running_instance)) <= 40
    assert metric_rows(running_instance)[0].at > oldest


def test_sampling_query_count_is_constant(cast, node, fake_time, queries):
    ids_and_names, node_id = (
        [(instance.id, instance.name) for instance in (cast.instance() for _ in range(12))],
        cast.node.id,
    )
    session.commit()
    start = fake_time.wall

    def count_statements(count):
        fake_time.wall = start
        for offset in (0, 20):
            statuses = {
                instance_id: MachineStatus(instance_id, name, Power.on, cpu_seconds=100 + offset, memory_used=2**20)
                for instance_id, name in ids_and_names[:count]
            }
            queries.clear()
            metrics.record_sample(node_id, metrics.NodeSample(fake_time.wall, statuses))
            fake_time.advance(30)
        return len(queries)

    assert count_statements(1) == count_statements(12) > 0


def test_instance_destroyed_during_sampling_does_not_fail_poll(
    running_instance, poll_node, metric_rows, fake_time, monkeypatch
):
    poll_node(30)
    row_count = len(metric_rows(running_instance))
    real = metrics.metrics.write

    def write(values, at):
        session.execute(delete(Instance).where(Instance.id == running_instance.id))
        real(values, at)

    monkeypatch.setattr(metrics.metrics, "write", write)
    fake_time.advance(20)
    node_sync.reconcile(running_instance.hypervisor_id)
    monkeypatch.undo()
    assert row_count == len(metric_rows(running_instance))


def test_samples_of_hypervisor_are_sums_over_its_machines(running_instance, poll_node, metric_rows, cast, fake_time):
    poll_node(600)
    cores = session.get(Hypervisor, cast.node.id).cpu_cores
    for step in SLOTS_BY_STEP:
        rows = session.scalars(select(HypervisorMetric).where(HypervisorMetric.step == step)).all()
        measured = {row.at: row for row in metric_rows(running_instance, step)}
        assert {row.at for row in rows} == measured.keys() != set()
        for row in rows:
            own = measured[row.at]
            assert row.cpu_percent == pytest.approx(own.cpu_percent * running_instance.cpu_cores / cores, rel=1e-3)
            assert row.memory_used == pytest.approx(own.memory_used)
            assert row.network_receive_mbps_max == pytest.approx(own.network_receive_mbps_max)


def list_host_rows(node, step=15):
    query = select(HypervisorMetric).where(HypervisorMetric.hypervisor_id == node.id, HypervisorMetric.step == step)
    return session.scalars(query.order_by(HypervisorMetric.at)).all()


def test_samples_of_hypervisor_have_the_load_of_the_host(running_instance, poll_node, cast, node, fake_time):
    poll_node(600)
    for step in SLOTS_BY_STEP:
        rows = list_host_rows(cast.node, step)
        assert rows
        for row in rows:
            assert row.cpu_percent < row.host_cpu_percent < 100
            assert row.memory_used < row.host_memory_used < cast.node.memory_mb
            assert row.host_cpu_percent <= row.host_cpu_percent_max
    before = node.host_usage()
    poll_node(60)
    after = node.host_usage()
    mean = sum(row.host_cpu_percent for row in list_host_rows(cast.node)[-4:]) / 4
    busy, total = after.busy_seconds - before.busy_seconds, after.total_seconds - before.total_seconds
    assert mean == pytest.approx(100 * busy / total, rel=0.15)


def test_node_without_host_usage_stays_up_and_leaves_its_load_unknown(running_instance, poll_node, cast, node):
    node.fault("host_usage", "refuse")
    poll_node(120)
    rows = list_host_rows(cast.node)
    assert rows
    assert {row.host_cpu_percent for row in rows} == {None}
    assert all(row.memory_used > 0 for row in rows)
    assert session.get(Hypervisor, cast.node.id).status == "up"
    node.clear()


def test_host_counters_that_restarted_are_not_stored():
    earlier, later = HostUsage(50, 100, 2**30), HostUsage(1, 2, 2**30)
    assert metrics.measure_host(earlier, later) == metrics.measure_host(None, later) == {}
    assert metrics.measure_host(later, earlier) == {"host_cpu_percent": 50, "host_memory_used": 1024}
