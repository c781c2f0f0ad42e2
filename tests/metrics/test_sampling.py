"""What workers write down of the looks at a node, and what they leave out."""

from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

import pytest
from sqlalchemy import delete

from panel.core.db import session
from panel.models import Instance
from panel.models.metrics import METRIC_NAMES, SLOTS_BY_STEP
from worker.nodes.base import MachineStatus, Power
from worker.sync import metrics, node_sync


def test_a_sample_is_kept_for_every_fifteen_seconds(machine, poll_node, metric_rows, fake_time):
    """Looks come every ten seconds; each span gets one sample, and none is missing."""
    poll_node(300)
    kept = metric_rows(machine)
    begun = [row.at for row in kept]
    assert len(begun) >= 19
    assert {later - earlier for earlier, later in pairwise(begun)} == {15}
    assert all(getattr(row, name) > 0 for row in kept for name in METRIC_NAMES)
    assert all(0 < row.cpu_percent < 100 and 0 < row.memory_used <= machine.ram for row in kept)


def test_figures_are_what_the_node_counted(machine, poll_node, metric_rows, node, fake_time):
    poll_node(60)
    before = {each.id: each for each in node.machines()}[machine.id]
    poll_node(60)
    after = {each.id: each for each in node.machines()}[machine.id]
    mac = machine.interfaces[0].mac
    last = metric_rows(machine)[-4:]
    mean = sum(row.network_receive_mbps for row in last) / 4
    assert mean == pytest.approx((after.received[mac] - before.received[mac]) / 60 / 125_000, rel=0.15)
    mean = sum(row.cpu_percent for row in last) / 4
    assert mean == pytest.approx(100 * (after.cpu_seconds - before.cpu_seconds) / 60, rel=0.15)
    assert last[0].memory_used == pytest.approx(after.guest_memory / 1024**2)


def test_a_machine_that_is_off_leaves_a_gap(machine, poll_node, metric_rows, node, fake_time):
    poll_node(60)
    node.guest_powers_off(machine.id)
    poll_node(120)
    node.external_start(machine.id)
    poll_node(60)
    begun = [row.at for row in metric_rows(machine)]
    assert max(later - earlier for earlier, later in pairwise(begun)) >= 120


def test_counters_that_began_anew_are_no_figures(machine, poll_node, metric_rows, node, fake_time):
    """Off and on between two looks: nothing negative and no leap is written."""
    poll_node(60)
    kept = len(metric_rows(machine))
    node.guest_powers_off(machine.id)
    node.external_start(machine.id)
    fake_time.advance(20)
    poll_node()
    assert len(metric_rows(machine)) == kept
    poll_node(60)
    assert len(metric_rows(machine)) > kept
    assert all(0 <= row.cpu_percent <= 100 for row in metric_rows(machine))


def test_a_node_that_was_silent_leaves_a_gap(machine, poll_node, metric_rows, fake_time):
    poll_node(60)
    kept = len(metric_rows(machine))
    fake_time.advance(600)
    poll_node()
    assert len(metric_rows(machine)) == kept
    poll_node(30)
    assert len(metric_rows(machine)) > kept


def test_a_clock_that_jumps_bends_no_figure(machine, cast, metric_rows, fake_time):
    """Spans are measured by a clock that nobody sets: an hour's leap on the wall is still ten seconds of work."""

    def look(counted):
        seen = MachineStatus(machine.id, machine.name, Power.on, cpu_seconds=counted, memory_used=2**20)
        metrics.record_sample(cast.node.id, metrics.NodeSample(fake_time.wall, {machine.id: seen}))

    look(100.0)
    fake_time.advance(10)
    fake_time.wall += timedelta(hours=1)
    look(105.0)
    fake_time.advance(10)
    fake_time.wall -= timedelta(hours=2)
    look(110.0)
    assert [round(row.cpu_percent) for row in metric_rows(machine)] == [50, 50]


def test_a_busy_machine_whose_counters_were_not_told_makes_no_leap(machine):
    """libvirt leaves counters out rather than wait: nothing is not a beginning."""
    told = MachineStatus(machine.id, machine.name, Power.on, cpu_seconds=50, disk_read=10**12, disk_reads=10**9)
    partly = replace(told, cpu_seconds=51, disk_read=0, disk_reads=0)
    again = replace(told, cpu_seconds=52)
    assert not metrics.is_measurable(told, replace(told, cpu_seconds=0))
    assert not metrics.is_measurable(replace(told, cpu_seconds=0), told)
    for pair in ((told, partly), (partly, again)):
        assert metrics.is_measurable(*pair)
        assert metrics.compute_usage(*pair, 15, 1, 512)["disk_read_bytes"] == 0


def test_longer_spans_hold_average_and_highest(machine, poll_node, metric_rows, fake_time):
    poll_node(3600)
    fine, five, hour = (metric_rows(machine, step) for step in SLOTS_BY_STEP)
    assert len(five) in (12, 13)
    assert len(hour) in (1, 2)
    span = [row for row in fine if five[3].at <= row.at < five[4].at]
    assert len(span) == 20
    assert five[3].cpu_percent == pytest.approx(sum(row.cpu_percent for row in span) / 20, rel=1e-3)
    assert five[3].cpu_percent_max == pytest.approx(max(row.cpu_percent for row in span), rel=1e-3)
    assert hour[0].cpu_percent_max == pytest.approx(max(row.cpu_percent_max for row in five[:12]), rel=0.2)


def test_a_machine_never_has_more_rows_than_its_rings(machine, poll_node, metric_rows, fake_time):
    """Old spans are written over: the table does not grow, however long a machine runs."""
    poll_node(3600)
    kept = len(metric_rows(machine))
    oldest = metric_rows(machine)[0].at
    poll_node(1800)
    assert len(metric_rows(machine)) <= SLOTS_BY_STEP[15]
    assert kept <= SLOTS_BY_STEP[15]
    assert metric_rows(machine)[0].at > oldest


def test_statements_do_not_grow_with_the_machines(cast, node, fake_time, queries):
    made, node_id = [(each.id, each.name) for each in (cast.instance() for _ in range(12))], cast.node.id
    session.commit()
    begin = fake_time.wall

    def statements(count):
        fake_time.wall = begin
        for offset in (0, 20):
            seen = {
                instance_id: MachineStatus(instance_id, name, Power.on, cpu_seconds=100 + offset, memory_used=2**20)
                for instance_id, name in made[:count]
            }
            queries.clear()
            metrics.record_sample(node_id, metrics.NodeSample(fake_time.wall, seen))
            fake_time.advance(30)
        return len(queries)

    assert statements(1) == statements(12) > 0


def test_a_machine_destroyed_meanwhile_costs_one_sample_and_no_look(
    machine, poll_node, metric_rows, fake_time, monkeypatch
):
    poll_node(30)
    kept = len(metric_rows(machine))
    real = metrics.metrics.write

    def write(figures, at):
        session.execute(delete(Instance).where(Instance.id == machine.id))
        real(figures, at)

    monkeypatch.setattr(metrics.metrics, "write", write)
    fake_time.advance(20)
    node_sync.reconcile(machine.hypervisor_id)
    monkeypatch.undo()
    assert kept == len(metric_rows(machine))
