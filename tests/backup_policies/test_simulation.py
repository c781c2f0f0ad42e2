"""The simulation of what a policy retains over the next year."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from panel.models import BackupPolicy
from panel.services.backup_policies.retention import select_retained
from panel.services.backup_policies.schedule import find_next_run
from panel.services.backup_policies.simulation import simulate

RULES = ("keep_last", "keep_within_days", "keep_daily", "keep_weekly", "keep_monthly", "keep_yearly")
NOW = datetime(2026, 6, 15, 12, tzinfo=UTC)
"""A Monday."""


def make_policy(*, mode="gfs", weekday=None, timezone="Europe/Berlin", count=None, **rules):
    return BackupPolicy(
        timezone=timezone,
        retention_mode=mode,
        retention_count=count,
        full_backup_frequency="daily" if weekday is None else "weekly",
        full_backup_day=weekday,
        full_backup_time="02:30",
        **dict.fromkeys(RULES, 0) | rules,
    )


def retain_run_by_run(policy, days):
    """Return the times of the backups that are left when retention is applied after each run, as workers do."""
    backups, run = [], find_next_run(policy, NOW)
    while run <= NOW + timedelta(days=days):
        backups.append(SimpleNamespace(id=run.isoformat(), created_at=run, disks=[{"id": "disk"}]))
        retained = select_retained(policy, backups, run + timedelta(seconds=20))
        backups = [backup for backup in backups if backup.id in retained]
        run = find_next_run(policy, run)
    return [backup.created_at for backup in backups]


@pytest.mark.parametrize(
    "values",
    [
        {"mode": "count", "count": 7},
        {"mode": "count", "count": 60, "weekday": 0},
        {"keep_daily": 7, "keep_weekly": 4, "keep_monthly": 6},
        {"keep_last": 3, "keep_monthly": 12, "keep_yearly": 2},
        {"keep_within_days": 10, "keep_weekly": 60},
        {"keep_daily": 3, "keep_monthly": 4, "weekday": 3, "timezone": "America/New_York"},
    ],
)
def test_simulation_equals_retention_after_each_run(values):
    policy = make_policy(**values)
    simulation = simulate(policy, NOW)
    for checkpoint in simulation.checkpoints:
        retained = retain_run_by_run(policy, checkpoint.days)
        assert (checkpoint.count, checkpoint.oldest) == (len(retained), min(retained, default=None))
    assert sum(row.count for row in simulation.ranges) == simulation.checkpoints[-1].count


def test_simulation_counts_and_joins_consecutive_runs():
    simulation = simulate(make_policy(keep_daily=7, keep_monthly=3, timezone="UTC"), NOW)
    assert [(row.days, row.count) for row in simulation.checkpoints] == [(7, 7), (30, 8), (90, 9), (180, 9), (365, 9)]
    ranges = [(f"{row.first:%Y-%m-%d}", f"{row.last:%Y-%m-%d}", row.count) for row in simulation.ranges]
    assert ranges == [("2027-06-09", "2027-06-15", 7), ("2027-05-31", "2027-05-31", 1), ("2027-04-30", "2027-04-30", 1)]


def test_weekly_policy_runs_on_its_local_day():
    simulation = simulate(make_policy(mode="count", count=2, weekday=1, timezone="Asia/Tokyo"), NOW)
    assert [row.count for row in simulation.checkpoints] == [1, 2, 2, 2, 2]
    assert all(row.first.weekday() == 6 for row in simulation.ranges), "it is Monday in Tokyo"
