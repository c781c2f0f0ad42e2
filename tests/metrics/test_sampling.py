"""What workers write down of the looks at a node, and what they leave out."""

from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

import pytest
from sqlalchemy import delete

from panel.core.db import session
from panel.models import Instance
from panel.models.metrics import FIGURES, STEPS
from worker.nodes.base import Power, Seen
from worker.sync import metrics, node_sync


def test_a_sample_is_kept_for_every_fifteen_seconds(machine, look, rows, time):
    """Looks come every ten seconds; each span gets one sample, and none is missing."""
    look(300)
    kept = rows(machine)
    begun = [row.at for row in kept]
    assert len(begun) >= 19
    assert {later - earlier for earlier, later in pairwise(begun)} == {15}
    assert all(getattr(row, name) > 0 for row in kept for name in FIGURES)
    assert all(0 < row.cpu_percent < 100 and 0 < row.memory_used <= machine.ram for row in kept)


def test_figures_are_what_the_node_counted(machine, look, rows, node, time):
    look(60)
    before = {each.id: each for each in node.machines()}[machine.id]
    look(60)
    after = {each.id: each for each in node.machines()}[machine.id]
    mac = machine.interfaces[0].mac
    last = rows(machine)[-4:]
    mean = sum(row.network_receive_mbps for row in last) / 4
    assert mean == pytest.approx((after.received[mac] - before.received[mac]) / 60 / 125_000, rel=0.15)
    mean = sum(row.cpu_percent for row in last) / 4
    assert mean == pytest.approx(100 * (after.cpu_seconds - before.cpu_seconds) / 60, rel=0.15)
    assert last[0].memory_used == pytest.approx(after.guest_memory / 1024**2)


def test_a_machine_that_is_off_leaves_a_gap(machine, look, rows, node, time):
    look(60)
    node.guest_powers_off(machine.id)
    look(120)
    node.owner_starts(machine.id)
    look(60)
    begun = [row.at for row in rows(machine)]
    assert max(later - earlier for earlier, later in pairwise(begun)) >= 120


def test_counters_that_began_anew_are_no_figures(machine, look, rows, node, time):
    """Off and on between two looks: nothing negative and no leap is written."""
    look(60)
    kept = len(rows(machine))
    node.guest_powers_off(machine.id)
    node.owner_starts(machine.id)
    time.passes(20)
    look()
    assert len(rows(machine)) == kept
    look(60)
    assert len(rows(machine)) > kept
    assert all(0 <= row.cpu_percent <= 100 for row in rows(machine))


def test_a_node_that_was_silent_leaves_a_gap(machine, look, rows, time):
    look(60)
    kept = len(rows(machine))
    time.passes(600)
    look()
    assert len(rows(machine)) == kept
    look(30)
    assert len(rows(machine)) > kept


def test_a_clock_that_jumps_bends_no_figure(machine, cast, rows, time):
    """Spans are measured by a clock that nobody sets: an hour's leap on the wall is still ten seconds of work."""

    def look(counted):
        seen = Seen(machine.id, machine.name, Power.on, cpu_seconds=counted, memory_used=2**20)
        metrics.sample(cast.node.id, metrics.Look(time.wall, {machine.id: seen}))

    look(100.0)
    time.passes(10)
    time.wall += timedelta(hours=1)
    look(105.0)
    time.passes(10)
    time.wall -= timedelta(hours=2)
    look(110.0)
    assert [round(row.cpu_percent) for row in rows(machine)] == [50, 50]


def test_a_busy_machine_whose_counters_were_not_told_makes_no_leap(machine):
    """libvirt leaves counters out rather than wait: nothing is not a beginning."""
    told = Seen(machine.id, machine.name, Power.on, cpu_seconds=50, disk_read=10**12, disk_reads=10**9)
    partly = replace(told, cpu_seconds=51, disk_read=0, disk_reads=0)
    again = replace(told, cpu_seconds=52)
    assert not metrics.counted(told, replace(told, cpu_seconds=0))
    assert not metrics.counted(replace(told, cpu_seconds=0), told)
    for pair in ((told, partly), (partly, again)):
        assert metrics.counted(*pair)
        assert metrics.used(*pair, 15, 1, 512)["disk_read_bytes"] == 0


def test_longer_spans_hold_average_and_highest(machine, look, rows, time):
    look(3600)
    fine, five, hour = (rows(machine, step) for step in STEPS)
    assert len(five) in (12, 13)
    assert len(hour) in (1, 2)
    span = [row for row in fine if five[3].at <= row.at < five[4].at]
    assert len(span) == 20
    assert five[3].cpu_percent == pytest.approx(sum(row.cpu_percent for row in span) / 20, rel=1e-3)
    assert five[3].cpu_percent_max == pytest.approx(max(row.cpu_percent for row in span), rel=1e-3)
    assert hour[0].cpu_percent_max == pytest.approx(max(row.cpu_percent_max for row in five[:12]), rel=0.2)


def test_a_machine_never_has_more_rows_than_its_rings(machine, look, rows, time):
    """Old spans are written over: the table does not grow, however long a machine runs."""
    look(3600)
    kept = len(rows(machine))
    oldest = rows(machine)[0].at
    look(1800)
    assert len(rows(machine)) <= STEPS[15]
    assert kept <= STEPS[15]
    assert rows(machine)[0].at > oldest


def test_statements_do_not_grow_with_the_machines(cast, node, time, queries):
    made, node_id = [(each.id, each.name) for each in (cast.instance() for _ in range(12))], cast.node.id
    session.commit()
    begin = time.wall

    def statements(count):
        time.wall = begin
        for offset in (0, 20):
            seen = {
                instance_id: Seen(instance_id, name, Power.on, cpu_seconds=100 + offset, memory_used=2**20)
                for instance_id, name in made[:count]
            }
            queries.clear()
            metrics.sample(node_id, metrics.Look(time.wall, seen))
            time.passes(30)
        return len(queries)

    assert statements(1) == statements(12) > 0


def test_a_machine_destroyed_meanwhile_costs_one_sample_and_no_look(machine, look, rows, time, monkeypatch):
    look(30)
    kept = len(rows(machine))
    real = metrics.metrics.write

    def write(figures, at):
        session.execute(delete(Instance).where(Instance.id == machine.id))
        real(figures, at)

    monkeypatch.setattr(metrics.metrics, "write", write)
    time.passes(20)
    node_sync.refresh(machine.hypervisor_id)
    monkeypatch.undo()
    assert kept == len(rows(machine))
