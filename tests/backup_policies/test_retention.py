"""Which backups a policy retains."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from panel.core import clock
from panel.core.db import session
from panel.core.errors import Invalid
from panel.models import BackupPolicy, InstanceBackup
from panel.services.backup_policies.retention import select_retained
from panel.services.instance_backups import delete
from worker.tasks import backup_policies as worker_tasks

DAY = timedelta(days=1)
NOW = datetime(2026, 6, 15, 12, tzinfo=UTC)
RULES = ("keep_last", "keep_within_days", "keep_daily", "keep_weekly", "keep_monthly", "keep_yearly")


def make_backups(count, step=DAY, disks=("a",)):
    """Return backups, the newest first, whose ids are their numbers."""
    return [
        SimpleNamespace(id=f"{number:04}", created_at=NOW - number * step, disks=[{"id": disk} for disk in disks])
        for number in range(count)
    ]


def retain(backups, *, timezone="UTC", mode="gfs", **rules):
    policy = BackupPolicy(timezone=timezone, retention_mode=mode, **dict.fromkeys(RULES, 0) | rules)
    return sorted(int(name) for name in select_retained(policy, backups, NOW))


def test_count_is_applied_to_each_disk():
    """POL-04"""
    both = make_backups(3, disks=("a", "b"))
    only_first = [SimpleNamespace(id=f"{9 - n:04}", created_at=NOW + n * DAY, disks=[{"id": "a"}]) for n in (1, 2)]
    assert retain(both, mode="count", retention_count=2) == [0, 1]
    assert retain([*both, *only_first], mode="count", retention_count=2) == [0, 1, 7, 8]


@pytest.mark.parametrize(
    ("rules", "retained"),
    [
        ({"keep_last": 2}, [0, 1]),
        ({"keep_within_days": 3}, [0, 1, 2, 3]),
        ({"keep_daily": 3}, [0, 1, 2]),
        ({"keep_weekly": 3}, [0, 1, 8]),
        ({"keep_monthly": 3}, [0, 15, 46]),
        ({"keep_yearly": 2}, [0, 166]),
        ({"keep_last": 2, "keep_monthly": 2}, [0, 1, 15]),
    ],
)
def test_rules_select_from_daily_backups(rules, retained):
    """POL-13"""
    assert retain(make_backups(400), **rules) == retained


def test_union_equals_a_reference_computation():
    """POL-13"""
    backups = make_backups(900, step=timedelta(hours=11))
    rules = {
        "keep_last": 3,
        "keep_within_days": 2,
        "keep_daily": 7,
        "keep_weekly": 5,
        "keep_monthly": 6,
        "keep_yearly": 2,
    }
    expected = {backup.id for backup in backups[:3]}
    expected |= {backup.id for backup in backups if NOW - backup.created_at <= 2 * DAY}
    formats = {"keep_daily": "%F", "keep_weekly": "%G-%V", "keep_monthly": "%Y-%m", "keep_yearly": "%Y"}
    for rule, text in formats.items():
        names = []
        for backup in backups:
            name = f"{backup.created_at:{text}}"
            if name not in names:
                names.append(name)
                if len(names) <= rules[rule]:
                    expected.add(backup.id)
    assert retain(backups, **rules) == sorted(int(name) for name in expected)


def test_days_are_those_of_the_time_zone():
    """02:00 and 21:00 UTC are the same day in UTC, and different days in Karachi."""
    moments = (datetime(2026, 6, 14, 21, tzinfo=UTC), datetime(2026, 6, 14, 2, tzinfo=UTC))
    backups = [SimpleNamespace(id=f"{n:04}", created_at=at, disks=[]) for n, at in enumerate(moments)]
    assert retain(backups, keep_daily=2) == [0]
    assert retain(backups, keep_daily=2, timezone="Asia/Karachi") == [0, 1]


def test_days_without_backups_do_not_count():
    assert retain(make_backups(10, step=3 * DAY), keep_daily=3) == [0, 1, 2]


@pytest.fixture
def run_policy(api_as, create_policy, machine, destination, run_tasks, monkeypatch):
    """Return a function that lets a policy with the machine run so many times; it returns the backups in order."""
    row = create_policy(retention_count=1)
    api_as("owner", "POST", f"/api/backup-policy/{row['id']}/attach", json={"instance_id": machine.id})
    policy = session.get(BackupPolicy, row["id"])

    def run(count=1):
        for _ in range(count):
            monkeypatch.setattr(clock, "now", lambda moment=policy.next_run_at: moment)
            worker_tasks.run_due()
            run_tasks()
        return session.query(InstanceBackup).order_by(InstanceBackup.id).all()

    return run


def test_sweep_leaves_protected_and_manual_backups(api_as, run_policy, path, back_up):
    """BAK-28"""
    manual = back_up()
    [_, oldest] = run_policy()
    api_as("owner", "PATCH", f"{path}/backup/{oldest.id}/protected", json={"protected": True})
    names = [backup.id for backup in run_policy(2)]
    assert names[:2] == [manual["id"], oldest.id]
    assert len(names) == 3


def test_sweep_retains_two_of_each_disk(api_as, run_policy, second_disk):
    """POL-04"""
    policy = session.query(BackupPolicy).one()
    policy.retention_count = 2
    session.commit()
    backups = run_policy(4)
    assert [len(backup.disks) for backup in backups] == [2, 2]


def test_refused_deletion_is_repeated_by_the_next_sweep(run_policy, monkeypatch):
    def refuse_claim(_):
        raise Invalid("The storage is not available.")

    run_policy()
    with monkeypatch.context() as patched:
        patched.setattr(delete, "lock_backup", refuse_claim)
        assert len(run_policy()) == 2
    assert len(run_policy()) == 1
