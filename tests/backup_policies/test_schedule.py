"""When policies run: in the account's time zone, also over changes to daylight saving time."""

from datetime import UTC, datetime, timedelta

import pytest

from panel.core import clock
from panel.core.db import session
from panel.models import BackupPolicy, InstanceBackup, Task
from panel.services.backup_policies import runs
from panel.services.backup_policies.schedule import find_next_run
from worker.tasks import backup_policies as worker_tasks


def list_runs(start, count, **fields):
    """Return the next runs after a time, as ISO texts of UTC."""
    policy = BackupPolicy(**{"full_backup_frequency": "daily", "timezone": "UTC"} | fields)
    moment, texts = datetime.fromisoformat(start).replace(tzinfo=UTC), []
    for _ in range(count):
        moment = find_next_run(policy, moment)
        texts.append(f"{moment:%a %Y-%m-%dT%H:%M}")
    return texts


def test_daily_runs():
    assert list_runs("2026-01-31T02:29", 2, full_backup_time="02:30") == [
        "Sat 2026-01-31T02:30",
        "Sun 2026-02-01T02:30",
    ]
    assert list_runs("2026-01-31T02:30", 1, full_backup_time="02:30") == ["Sun 2026-02-01T02:30"]


@pytest.mark.parametrize(("day", "text"), [(0, "Sun 2026-11-29"), (1, "Mon 2026-11-30"), (4, "Thu 2026-12-03")])
def test_weekly_runs(day, text):
    fields = {"full_backup_frequency": "weekly", "full_backup_day": day, "full_backup_time": "00:00"}
    assert list_runs("2026-11-26T10:00", 1, **fields) == [f"{text}T00:00"]


def test_runs_are_at_local_time():
    """POL-15"""
    assert list_runs("2026-01-15T00:00", 1, full_backup_time="02:30", timezone="Asia/Karachi") == [
        "Thu 2026-01-15T21:30"
    ]
    fields = {"full_backup_frequency": "weekly", "full_backup_day": 1, "full_backup_time": "01:00"}
    assert list_runs("2026-01-15T00:00", 1, timezone="Asia/Karachi", **fields) == ["Sun 2026-01-18T20:00"]


def test_skipped_hour_of_daylight_saving_time():
    """On 29 March 2026 Berlin has no 02:30: that run is one hour later on the clock, and there is one a day."""
    assert list_runs("2026-03-27T12:00", 3, full_backup_time="02:30", timezone="Europe/Berlin") == [
        "Sat 2026-03-28T01:30",
        "Sun 2026-03-29T01:30",
        "Mon 2026-03-30T00:30",
    ]


def test_repeated_hour_of_daylight_saving_time():
    """On 25 October 2026 Berlin has 02:30 twice: the policy runs once."""
    assert list_runs("2026-10-24T12:00", 2, full_backup_time="02:30", timezone="Europe/Berlin") == [
        "Sun 2026-10-25T00:30",
        "Mon 2026-10-26T01:30",
    ]


def test_skipped_midnight():
    """Days begin at 01:00 in Santiago on 6 September 2026."""
    assert list_runs("2026-09-05T12:00", 2, full_backup_time="00:00", timezone="America/Santiago") == [
        "Sun 2026-09-06T04:00",
        "Mon 2026-09-07T03:00",
    ]


def test_unknown_time_zone_counts_as_utc():
    assert list_runs("2026-01-01T00:00", 1, full_backup_time="02:30", timezone="Mars/Base") == ["Thu 2026-01-01T02:30"]


@pytest.fixture
def attached_policy(api_as, create_policy, machine, destination):
    """A policy of the owner with the machine."""
    row = create_policy(full_backup_time="02:30", max_incremental_chain=2)
    api_as("owner", "POST", f"/api/backup-policy/{row['id']}/attach", json={"instance_id": machine.id})
    return session.get(BackupPolicy, row["id"])


@pytest.fixture
def run_at(monkeypatch, run_tasks):
    """Return a function that runs the schedule, and the tasks, at a time."""

    def run(moment):
        monkeypatch.setattr(clock, "now", lambda: moment)
        worker_tasks.run_due()
        run_tasks()

    return run


def test_due_policy_backs_up_its_instances_once(attached_policy, run_at, machine):
    due_at = attached_policy.next_run_at
    run_at(due_at - timedelta(seconds=1))
    assert session.query(InstanceBackup).count() == 0
    for _ in range(2):
        run_at(due_at + timedelta(seconds=5))
    backup = session.query(InstanceBackup).one()
    assert (backup.status, backup.policy_id, backup.instance_id) == ("complete", attached_policy.id, machine.id)
    assert attached_policy.next_run_at == due_at + timedelta(days=1)
    assert session.query(Task).filter_by(kind="backup_create").one().actor == "backup policy p"


def test_missed_runs_are_not_made_up_for(attached_policy, run_at):
    due_at = attached_policy.next_run_at
    run_at(due_at + timedelta(days=3, hours=1))
    assert session.query(InstanceBackup).count() == 1
    assert attached_policy.next_run_at == due_at + timedelta(days=4)


def test_chain_has_its_maximum(attached_policy, run_at):
    for _ in range(6):
        run_at(attached_policy.next_run_at)
    rows = session.query(InstanceBackup).order_by(InstanceBackup.id).all()
    kinds = [(row.backup_type, row.chain_reason) for row in rows]
    full, incremental = ("full", "chain_length"), ("incremental", None)
    assert kinds == [("full", "first_backup"), incremental, incremental, full, incremental, incremental]


def test_failures_are_counted_and_a_success_resets_them(attached_policy, run_at, destination, api_as):
    destination.enabled = False
    session.commit()
    for _ in range(2):
        run_at(attached_policy.next_run_at)
    row = api_as("owner", "GET", "/api/backup-policies").json["data"][0]
    assert (row["failures"], row["status"]) == (2, "error")
    assert row["last_error"] == "Backups are not available in this location."
    destination.enabled = True
    session.commit()
    run_at(attached_policy.next_run_at)
    row = api_as("owner", "GET", "/api/backup-policies").json["data"][0]
    assert (row["failures"], row["status"], row["last_error"]) == (0, "active", None)


def test_failed_task_counts(attached_policy, run_at, folder, api_as):
    run_at(attached_policy.next_run_at)
    backup = session.query(InstanceBackup).one()
    (folder / backup.repository_id).rename(folder / "away")
    run_at(attached_policy.next_run_at)
    row = api_as("owner", "GET", "/api/backup-policies").json["data"][0]
    assert (row["failures"], row["last_error"]) == (1, "The backup storage cannot be used now.")


def test_instances_that_cannot_be_backed_up_are_left_out(attached_policy, run_at, machine, cast, api_as):
    undeployed = cast.instance()
    api_as("owner", "POST", f"/api/backup-policy/{attached_policy.id}/attach", json={"instance_id": undeployed.id})
    machine.suspended_reason = "admin"
    session.commit()
    run_at(attached_policy.next_run_at)
    assert session.query(InstanceBackup).count() == 0
    assert attached_policy.failures == 0


def test_changed_time_zone_moves_the_next_run(attached_policy, run_at, cast):
    """POL-15"""
    cast.owner.timezone = "Asia/Karachi"
    session.commit()
    moment = datetime(2026, 1, 15, tzinfo=UTC)
    run_at(moment)
    assert attached_policy.next_run_at == datetime(2026, 1, 15, 21, 30, tzinfo=UTC)
    platform = runs.select_due()
    assert session.scalars(platform).all() == []
