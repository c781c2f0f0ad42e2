"""What a policy would retain over the next year, if every backup succeeds."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from panel.models import BackupPolicy
from panel.services.backup_policies.retention import select_retained
from panel.services.backup_policies.schedule import find_next_run

SIMULATED_DAYS = (7, 30, 90, 180, 365)
"""Days after the present for which the retained backups are listed."""
BACKUP_DURATION = timedelta(minutes=1)
"""How long a backup takes: retention is applied when it is complete."""


@dataclass
class SimulatedBackup:
    id: str
    created_at: datetime
    disks: list[dict[str, Any]] = field(default_factory=lambda: [{"id": "disk"}])


@dataclass
class RetainedRange:
    """Retained backups of consecutive runs."""

    first: datetime
    last: datetime
    count: int = 1


@dataclass
class Checkpoint:
    days: int
    count: int
    oldest: datetime | None


@dataclass
class Simulation:
    checkpoints: list[Checkpoint]
    ranges: list[RetainedRange]
    """What is retained at the end, the newest first."""


def simulate(policy: BackupPolicy, now: datetime) -> Simulation:
    """Simulate one instance that has no backup of the policy yet.

    Retention is applied once at each checkpoint: because every run makes a backup, that selects the same ones as
    applying it after each run.
    """
    runs = list_runs(policy, now, now + timedelta(days=SIMULATED_DAYS[-1]))
    checkpoints, retained = [], set[datetime]()
    for days in SIMULATED_DAYS:
        backups = [SimulatedBackup(run.isoformat(), run) for run in runs if run <= now + timedelta(days=days)]
        ids = select_retained(policy, backups, backups[-1].created_at + BACKUP_DURATION) if backups else set()
        retained = {backup.created_at for backup in backups if backup.id in ids}
        checkpoints.append(Checkpoint(days, len(retained), min(retained, default=None)))
    return Simulation(checkpoints, merge_runs(runs, retained))


def list_runs(policy: BackupPolicy, after: datetime, until: datetime) -> list[datetime]:
    runs = [find_next_run(policy, after)]
    while runs[-1] <= until:
        runs.append(find_next_run(policy, runs[-1]))
    return runs[:-1]


def merge_runs(runs: list[datetime], retained: set[datetime]) -> list[RetainedRange]:
    """Return the retained runs, the newest first; those that follow each other as one range."""
    ranges: list[RetainedRange] = []
    is_adjacent = False
    for run in reversed(runs):
        if run not in retained:
            is_adjacent = False
            continue
        if is_adjacent:
            ranges[-1].first, ranges[-1].count = run, ranges[-1].count + 1
        else:
            ranges.append(RetainedRange(run, run))
        is_adjacent = True
    return ranges
