"""What backup jobs of a hypervisor group back up, and what they do beside policies of instances."""

from datetime import UTC, datetime, timedelta

import pytest

from panel.core import clock
from panel.core.db import session
from panel.models import BackupPolicy, Instance, InstanceBackup, Task
from panel.schemas.backup_policies import DEFAULTS
from panel.services import backup_coverage, backup_destinations, backup_policies, hypervisors, settings
from panel.services.backup_policies import runs
from tests.support.task_queue import queued_calls
from worker.engine import claiming
from worker.tasks import backup_policies as worker_tasks

MIDNIGHT = datetime(2027, 3, 1, tzinfo=UTC)
"""A Monday."""


@pytest.fixture
def create_job(cast, monkeypatch):
    """Return a function that creates a job of the location at MIDNIGHT."""

    def create(**body):
        monkeypatch.setattr(clock, "now", lambda: MIDNIGHT)
        job = backup_policies.create_job(cast.location, **{"keep": {"keep_last": 2}, "schedule": "02:00"} | body)
        session.commit()
        return job

    return create


@pytest.fixture
def run_at(monkeypatch, run_tasks):
    """Return a function that runs the schedule, and the tasks, some time after MIDNIGHT."""

    def run(*, days=0, hours=2, minutes=0):
        monkeypatch.setattr(clock, "now", lambda: MIDNIGHT + timedelta(days=days, hours=hours, minutes=minutes))
        worker_tasks.run_due()
        new = session.query(InstanceBackup).filter(InstanceBackup.created_at < MIDNIGHT)
        new.update({"created_at": clock.now()})  # its default is the real time
        session.commit()
        run_tasks()

    return run


def list_makers(instance=None):
    """Return the policies and jobs that made the backups, oldest first, by name."""
    query = session.query(InstanceBackup).order_by(InstanceBackup.created_at, InstanceBackup.id)
    rows = query.filter_by(instance_id=instance.id) if instance else query
    return [session.get(BackupPolicy, row.policy_id).name for row in rows]


def attach(instance, **values):
    fields = {"name": "own", "retention_count": 7}
    policy = backup_policies.create(None, **DEFAULTS | fields | values)
    backup_policies.attach(policy, instance)
    session.commit()
    return policy


def test_job_backs_up_all_instances_of_its_group(cast, machine, destination, create_job, run_at):
    job = create_job(name="nightly")
    suspended = cast.instance()
    suspended.suspended_reason, suspended.deployed = "admin", True
    cast.instance(), session.commit()  # not deployed
    run_at(hours=1)
    assert list_makers() == []
    run_at()
    assert list_makers() == list_makers(machine) == ["nightly"]
    assert (job.failures, job.next_run_at) == (0, MIDNIGHT + timedelta(days=1, hours=2))
    assert session.query(Task).filter_by(kind="backup_create").one().actor == "backup job nightly"


def test_job_of_a_hypervisor_or_of_another_group_leaves_others_out(cast, machine, destination, create_job, run_at):
    hypervisor = hypervisors.create(
        cast.location, name="n2", driver="simulated", uri="simulated://2", storage_path="/srv"
    )
    group = hypervisors.create_group(name="other", display_name="Other")
    backup_policies.create_job(group, name="other", keep={"keep_last": 1})
    create_job(name="second", target_type="hypervisor", target_value=hypervisor.id)
    create_job(name="disabled", enabled=False)
    run_at()
    assert list_makers() == []
    create_job(name="first", target_type="hypervisor", target_value=cast.node.id)
    run_at()
    assert list_makers() == ["first"]


def test_run_continues_after_its_first_part(cast, machine, destination, create_job, run_at, monkeypatch):
    """A run of many instances takes several turns. None is left out, and none is handled twice."""
    monkeypatch.setattr(runs, "MAX_INSTANCES_PER_TURN", 2)
    handled = []
    monkeypatch.setattr(runs, "request_backup", lambda policy, instance, now: handled.append(instance.id))
    instances = {machine.id, *(cast.instance().id for _ in range(4))}
    job = create_job()
    for _ in range(3):
        run_at()
    assert (len(handled), set(handled)) == (5, instances)
    assert (job.run_position, job.next_run_at) == (None, MIDNIGHT + timedelta(days=1, hours=2))
    run_at(minutes=1)
    assert len(handled) == 5


def test_instances_with_a_policy_in_the_same_slot_are_left_out(machine, destination, create_job, run_at):
    """The policy makes the backup whichever runs first, and there is one in the slot."""
    create_job(name="job")
    policy = attach(machine, full_backup_time="02:45")
    run_at()
    assert list_makers() == []
    run_at(minutes=45)
    assert list_makers() == ["own"]
    backup_policies.update(policy, full_backup_time="01:15")
    session.commit()
    run_at(days=1, hours=1, minutes=15)
    run_at(days=1)
    assert list_makers() == ["own", "own"]
    backup_policies.update(policy, full_backup_time="02:00")
    session.commit()
    run_at(days=2)
    assert list_makers() == ["own", "own", "own"]


def test_policy_and_job_in_different_slots_retain_their_own(machine, destination, create_job, run_at):
    create_job(name="job", keep={"keep_last": 1})
    attach(machine, full_backup_time="12:00", retention_count=2)
    for day in range(4):
        run_at(days=day)
        run_at(days=day, hours=12)
    assert list_makers(machine) == ["own", "job", "own"]


def test_job_makes_the_backup_that_a_policy_could_not(machine, destination, create_job, run_at):
    create_job(name="job")
    attach(machine, full_backup_time="01:30")
    destination.enabled = False
    session.commit()
    run_at(hours=1, minutes=30)
    assert list_makers() == []
    destination.enabled = True
    session.commit()
    run_at()
    assert list_makers() == ["job"]


def test_instance_that_is_being_backed_up_is_left_out(machine, destination, create_job, run_at, monkeypatch):
    """A backup that takes longer than a slot is not made twice, and that is no failure."""
    create_job(name="job")
    policy = attach(machine, full_backup_time="06:00")
    monkeypatch.setattr("tests.conftest.run_queued_calls", lambda: None)
    run_at()
    run_at(hours=6)
    assert (list_makers(), policy.failures) == (["job"], 0)


def test_weekly_job_comes_before_a_daily_one_in_the_same_slot(machine, destination, create_job, run_at):
    create_job(name="daily")
    create_job(name="weekly", schedule="mon 02:00")
    for day in range(2):
        run_at(days=day)
    assert list_makers() == ["weekly", "daily"]


def test_retention_of_a_job_leaves_protected_and_other_backups(machine, destination, create_job, run_at, back_up):
    back_up(name="by hand")
    session.query(InstanceBackup).update({"created_at": MIDNIGHT})
    create_job(name="job", keep={"keep_last": 1})
    run_at()
    protected = session.query(InstanceBackup).filter(InstanceBackup.policy_id.is_not(None)).one()
    protected.protected = True
    session.commit()
    for day in range(1, 4):
        run_at(days=day)
    rows = session.query(InstanceBackup).order_by(InstanceBackup.created_at).all()
    assert [row.name for row in rows] == ["by hand", "job 2027-03-01 02:00", "job 2027-03-04 02:00"]


def test_destination_of_a_job(machine, destination, create_job, run_at, tmp_path, run_tasks):
    second = backup_destinations.create(name="b2", storage_type="local", config={"path": str(tmp_path / "b2")})
    session.commit()
    run_tasks()
    job = create_job(storage=second.id)
    run_at()
    assert session.query(InstanceBackup).one().destination_id == second.id
    second.enabled = False
    session.commit()
    run_at(days=1)
    assert session.query(InstanceBackup).count() == 1, "no other destination takes its place"
    assert (job.failures, job.last_error) == (1, "The hypervisor has no such enabled destination.")


def test_backups_of_a_job_obey_the_limit_of_the_hypervisor(cast, destination, create_job, run_at, monkeypatch):
    instances = [cast.instance() for _ in range(3)]
    session.query(Instance).update({"deployed": True, "power": "on"})
    settings.update({"backup_tasks_per_hypervisor": 2})
    session.commit()
    create_job()
    monkeypatch.setattr("tests.conftest.run_queued_calls", lambda: None)
    run_at()
    tasks = session.query(Task).filter_by(kind="backup_create").all()
    assert len(tasks) == len(instances)
    assert [claiming.claim(task.id, task.id) is not None for task in tasks] == [True, True, False]
    queued_calls.clear()


def test_changed_schedule_ends_a_run(cast, machine, destination, create_job, run_at, monkeypatch):
    monkeypatch.setattr(runs, "MAX_INSTANCES_PER_TURN", 1)
    job = create_job()
    cast.instance()
    run_at()
    assert job.run_position is not None
    backup_policies.update_job(job, schedule="05:00")
    assert (job.run_position, job.next_run_at) == (None, MIDNIGHT + timedelta(hours=5))


def test_instance_of_a_job_has_a_policy_in_the_list_of_missing_backups(machine, create_job, browser_as, monkeypatch):
    monkeypatch.undo()
    list_gaps = lambda: [  # noqa: E731
        gap
        for gap in backup_coverage.COVERAGE_GAPS
        if session.scalar(backup_coverage.select_gap(session.query(Instance.id).statement, gap))
    ]
    assert list_gaps() == ["no_policy"]
    job = create_job(name="nightly")
    monkeypatch.undo()
    assert list_gaps() == ["first_pending"]
    assert "nightly" in browser_as("admin").get("/admin/backups/missing").text
    job.enabled = False
    session.commit()
    assert list_gaps() == ["no_policy"]
