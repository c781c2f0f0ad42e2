"""Charging for managed backups: the unique bytes of what policies and jobs of the platform have stored."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from panel.core.db import session
from panel.models import BackupRepository, InstanceBackup, ManagedBackupUsage, MeteringRecord, UsageHour, UsageMonth
from panel.schemas.backup_policies import DEFAULTS
from panel.services import backup_policies, managed_backups, settings, usage
from tests.support.billing_clock import billing_enabled, set_clock  # noqa: F401  (fixtures)
from worker.tasks import backup_policies as policy_tasks
from worker.tasks import backup_repositories as repository_tasks
from worker.tasks import usage as usage_tasks

START_TIME = datetime(2027, 3, 1, 2, 10, tzinfo=UTC)
PRICE = 500_000
"""Of a GiB, because the backups of tests have kilobytes."""


@pytest.fixture
def move_clock(set_clock):
    """Return a function that sets the clock some hours after START_TIME."""
    move = lambda hours: set_clock(START_TIME + timedelta(hours=hours))  # noqa: E731
    move(0)
    return move


@pytest.fixture
def charged(cast, billing_enabled, move_clock):
    """The location charges for managed backups."""
    cast.location.managed_backups_billed = True
    settings.update({"managed_backup_price": PRICE})
    session.commit()


@pytest.fixture
def run_job(cast, destination, machine, guest, run_tasks, move_clock):
    """Return a function that backs the machine up by a job, some hours after START_TIME."""
    job = backup_policies.create_job(cast.location, name="job", keep={"keep_last": 9})

    def run(hours=0, text="x"):
        move_clock(hours)
        guest.write(text * 3000)
        job.next_run_at = START_TIME
        session.commit()
        policy_tasks.run_due()
        run_tasks()
        session.query(InstanceBackup).update({"created_at": START_TIME - timedelta(days=1)})  # not in the next slot
        session.commit()
        return session.query(InstanceBackup).order_by(InstanceBackup.id.desc()).first()

    return run


@pytest.fixture
def collect(run_tasks):
    """Return a function that collects garbage, as once a day."""

    def run():
        session.query(BackupRepository).one().collected_at = None
        session.commit()
        repository_tasks.collect_due()
        run_tasks()
        usage_tasks.meter_and_post()

    return run


def count_bytes():
    return sum(row.bytes for row in session.query(ManagedBackupUsage))


def list_hours():
    """Return the hours after START_TIME that were metered, with their prices."""
    rows = session.query(UsageHour).join(MeteringRecord, MeteringRecord.resource_id == UsageHour.resource_id)
    rows = rows.filter(MeteringRecord.resource_type == "managed_backups").order_by(UsageHour.hour)
    return {(row.hour - usage.truncate_to_hour(START_TIME)) // usage.ONE_HOUR: row.price for row in rows}


def calculate_price(size):
    return (Decimal(PRICE) * size / 1024**3).quantize(Decimal("0.000001"))


def test_managed_backups_are_charged_by_the_hour(api_as, charged, run_job, move_clock, cast):
    """HVG-04: `managed_backups_billed`"""
    backup = run_job()
    assert (backup.managed_group_id, count_bytes()) == (cast.location.id, backup.size)
    usage_tasks.meter_and_post()
    move_clock(3)
    usage_tasks.meter_and_post()
    price = calculate_price(backup.size)
    assert list_hours() == {0: price, 1: price, 2: price}
    row = session.query(UsageMonth).filter_by(resource_type="managed_backups").one()
    assert (row.account_id, row.hours, row.charge) == (cast.owner.id, 3, usage.calculate_price(price, 3))
    assert row.charge > 0
    report = api_as("owner", "GET", "/api/usage-report?month=2027-03").json
    assert "Laboratory, backups-1" in str(report)


def test_growth_is_charged_from_the_next_hour_on(charged, run_job, move_clock):
    first = run_job()
    usage_tasks.meter_and_post()
    second = run_job(1, text="y")
    usage_tasks.meter_and_post()
    third = run_job(1, text="z")
    usage_tasks.meter_and_post()
    move_clock(2)
    usage_tasks.meter_and_post()
    move_clock(4)
    usage_tasks.meter_and_post()
    two, three = first.size + second.size, first.size + second.size + third.size
    sizes = [first.size, first.size, two, three]
    assert list_hours() == dict(enumerate(map(calculate_price, sizes))), "a price changes at most once an hour"


def test_garbage_collection_counts_unique_bytes_and_ends_the_charge(charged, run_job, move_clock, collect, api_as):
    first, second = run_job(), run_job(1)
    usage_tasks.meter_and_post()
    assert count_bytes() == first.size + second.size
    collect()
    both = count_bytes()
    assert second.size < both <= first.size
    delete = lambda row: api_as("owner", "DELETE", f"/api/backup/{row.id}").status_code  # noqa: E731
    assert delete(first) == 200
    assert count_bytes() == both, "until the next collection"
    move_clock(2)
    collect()
    assert count_bytes() == both, "the second one still uses what the first one stored"
    assert delete(second) == 200
    move_clock(4)
    collect()
    assert count_bytes() == 0
    move_clock(9)
    usage_tasks.meter_and_post()
    assert max(list_hours()) == 4, "the hour of the collection is the last one"
    assert session.query(MeteringRecord).filter_by(resource_type="managed_backups", closed=False).count() == 0


def test_backups_after_the_count_began_are_added(charged, run_job, collect):
    first = run_job()
    counted_at = START_TIME + timedelta(minutes=30)
    second = run_job(1, text="y")
    repository = session.query(BackupRepository).one()
    managed_backups.record_count(repository, {first.managed_group_id: 1000}, since=counted_at)
    assert count_bytes() == 1000 + second.size


def test_switch_starts_and_ends_metering(charged, run_job, move_clock, cast):
    """HVG-04: `managed_backups_billed`. No hour is counted twice."""
    cast.location.managed_backups_billed = False
    run_job()
    usage_tasks.meter_and_post()
    assert list_hours() == {}
    for hours, is_on in ((1, True), (2, False), (2.3, True), (3, True), (4, False), (9, False)):
        move_clock(hours)
        cast.location.managed_backups_billed = is_on
        session.commit()
        usage_tasks.meter_and_post()
    assert list(list_hours()) == [1, 2, 3, 4]


def test_other_backups_are_free(charged, run_job, back_up, api_as, machine, move_clock, run_tasks):
    """Backups by hand, by a customer's policy, and of instances that an external billing system charges for."""
    back_up()
    owner = backup_policies.create(None, **DEFAULTS | {"name": "own", "retention_count": 1})
    owner.account_id = machine.account_id
    backup_policies.attach(owner, machine)
    owner.next_run_at = START_TIME
    session.commit()
    policy_tasks.run_due()
    run_tasks()
    backup_policies.detach(owner, machine)
    machine.billing_mode = "external"
    run_job(5)
    assert session.query(InstanceBackup).count() == 3
    assert session.query(ManagedBackupUsage).count() == 0


def test_attached_policy_of_the_platform_is_managed(charged, machine, guest, destination, run_tasks, cast):
    policy = backup_policies.create_plan(**DEFAULTS | {"name": "gold", "retention_count": 1})
    backup_policies.attach(policy, machine)
    policy.next_run_at = START_TIME
    session.commit()
    policy_tasks.run_due()
    run_tasks()
    assert session.query(InstanceBackup).one().managed_group_id == cast.location.id


@pytest.mark.parametrize("delete_backups", [False, True])
def test_charge_after_termination(charged, run_job, move_clock, collect, api_as, machine, run_tasks, delete_backups):
    """BIL-08, BIL-09: what remains is charged until it is deleted."""
    run_job()
    usage_tasks.meter_and_post()
    body = {"delete_backups": delete_backups}
    assert api_as("billing", "POST", f"/api/v1/billing/instance/{machine.id}/terminate", json=body).status_code == 200
    run_tasks()
    move_clock(2)
    collect()
    move_clock(5)
    usage_tasks.meter_and_post()
    assert list(list_hours()) == ([0, 1, 2] if delete_backups else [0, 1, 2, 3, 4])


def test_removed_location_or_repository_ends_the_charge(charged, run_job, move_clock):
    run_job()
    usage_tasks.meter_and_post()
    session.query(ManagedBackupUsage).one().repository_id = "0199c0a8-0000-7000-8000-000000000000"
    session.commit()
    move_clock(4)
    usage_tasks.meter_and_post()
    move_clock(9)
    usage_tasks.meter_and_post()
    assert max(list_hours()) == 4
    assert session.query(ManagedBackupUsage).all() == []
