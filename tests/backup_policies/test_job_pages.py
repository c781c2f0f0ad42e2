"""Operators' pages of backup jobs and plans, and what customers see of jobs."""

import pytest

from panel.core.db import session
from panel.models import BackupPolicy
from panel.schemas.backup_policies import DEFAULTS
from panel.services import backup_policies, settings

FIELDS = {name: "" if value is None else str(value) for name, value in DEFAULTS.items()}
FIELDS = {name: FIELDS[name] for name in FIELDS if name not in ("retention_mode", "retention_count")}
FIELDS |= {"name": "nightly", "enabled": "true", "keep_daily": "7", "plan_id": "", "target_value": "", "storage": ""}


@pytest.fixture
def browser(browser_as):
    return browser_as("admin")


@pytest.fixture
def location_path(cast):
    return f"/admin/locations/{cast.location.id}"


@pytest.fixture
def add_job(browser, location_path):
    """Return a function that creates a job by the form and returns it."""

    def add(**changes):
        answer = browser.post(f"{location_path}/backup-jobs/new", data=FIELDS | changes)
        assert answer.status_code == 303, answer.text
        assert answer.headers["Location"] == location_path
        return session.query(BackupPolicy).filter_by(name=(FIELDS | changes)["name"]).one()

    return add


@pytest.fixture
def plan(rolled_back_app, destination):
    values = {"name": "gold", "retention_count": 5, "full_backup_time": "03:30", "storage": destination.id}
    plan = backup_policies.create_plan(**DEFAULTS | values)
    session.commit()
    return plan


def test_job_is_created_changed_and_deleted(browser, location_path, add_job, cast, destination):
    assert "There is none yet" in browser.get(location_path).text
    assert 'name="full_backup_time"' in browser.get(f"{location_path}/backup-jobs/new").text
    weekly = {"full_backup_frequency": "weekly", "full_backup_day": "0", "full_backup_time": "04:15"}
    job = add_job(**weekly, target_value=cast.node.id, storage=destination.id, comment="agreed")
    assert (job.schedule, job.hypervisor_id, job.destination_id) == ("sun 04:15", cast.node.id, destination.id)
    text = browser.get(location_path).text
    for part in ("nightly", "Sundays at 04:15", "On node-1", "backups-1", "7 daily", "agreed"):
        assert part in text
    path = f"{location_path}/backup-jobs/{job.id}"
    form = browser.get(path).text
    assert 'value="04:15"' in form
    assert f'<option value="{cast.node.id}" selected' in form
    assert f'<option value="{destination.id}" selected' in form
    answer = browser.post(path, data=FIELDS | {"name": "daily", "enabled": "false", "keep_last": "2"})
    assert answer.status_code == 303, answer.text
    assert (job.name, job.schedule, job.enabled, job.hypervisor_id) == ("daily", "02:00", False, None)
    assert (job.keep_last, job.keep_daily, job.destination_id) == (2, 7, None)
    assert "Disabled" in browser.get(location_path).text
    assert browser.post(f"{path}/delete").status_code in (200, 303)
    assert session.query(BackupPolicy).count() == 0


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"full_backup_frequency": "weekly"}, "full_backup_day"),
        ({"full_backup_time": "25:00"}, "full_backup_time"),
        ({"keep_daily": "0"}, "keep_last"),
        ({"keep_daily": "366"}, "keep_daily"),
        ({"plan_id": "0199c0a8-0000-7000-8000-000000000000"}, "plan_id"),
        ({"storage": "0199c0a8-0000-7000-8000-000000000000"}, "storage"),
        ({"target_value": "0199c0a8-0000-7000-8000-000000000000"}, "target_value"),
    ],
)
def test_wrong_fields_are_refused_by_name(browser, location_path, changes, field):
    answer = browser.post(f"{location_path}/backup-jobs/new", data=FIELDS | changes)
    assert answer.status_code == 422
    assert f'id="wrong-{field}"' in answer.text


def test_job_with_a_plan_has_what_the_plan_has(browser, location_path, add_job, plan):
    job = add_job(plan_id=plan.id, keep_daily="99")
    assert (job.schedule, job.retention_count, job.keep_daily) == ("03:30", 5, 0)
    assert job.destination_id == plan.destination_id
    text = browser.get(location_path).text
    assert "gold" in text
    assert "5 newest backups" in text
    assert "Laboratory: nightly" in browser.get(f"/admin/backup-policies/{plan.id}").text
    path = f"{location_path}/backup-jobs/{job.id}"
    assert f'<option value="{plan.id}" selected' in browser.get(path).text
    assert browser.post(path, data=FIELDS | {"keep_daily": "3"}).status_code == 303
    assert (job.plan_id, job.schedule, job.keep_daily, job.retention_mode) == (None, "02:00", 3, "gfs")


def test_destination_of_a_policy_of_the_platform(browser, destination, plan, create_policy, cast):
    path = f"/admin/backup-policies/{plan.id}"
    assert "backups-1" in browser.get(path).text
    form = browser.get(f"{path}/edit").text
    assert f'<option value="{destination.id}" selected' in form
    data = {name: "" if value is None else str(value) for name, value in DEFAULTS.items()}
    data |= {"name": "gold", "retention_count": "5"}
    assert browser.post(f"{path}/edit", data=data | {"storage": ""}).status_code == 303
    assert plan.destination_id is None
    answer = browser.post("/admin/backup-policies/new", data=data | {"storage": destination.id})
    assert answer.status_code == 303
    assert session.query(BackupPolicy).filter_by(destination_id=destination.id).count() == 1
    owned = data | {"storage": destination.id, "owner": cast.owner.email}
    answer = browser.post("/admin/backup-policies/new", data=owned)
    assert answer.status_code == 422
    assert 'id="wrong-storage"' in answer.text
    assert 'name="storage"' not in browser.get(f"/admin/backup-policies/{create_policy()['id']}/edit").text


def test_plan_with_jobs_is_not_deleted(browser, add_job, plan):
    add_job(plan_id=plan.id)
    assert browser.post(f"/admin/backup-policies/{plan.id}/delete").status_code == 409
    assert session.query(BackupPolicy).count() == 2


def test_instance_shows_the_job_that_covers_it(browser, browser_as, add_job, machine, cast):
    customer, path = browser_as("owner"), f"/instances/{machine.id}/backups"
    assert "This instance is not backed up automatically" in customer.get(path).text
    add_job()
    cast.location.managed_backups_billed = True
    settings.update({"managed_backup_price": 0.05})
    session.commit()
    text = customer.get(path).text
    assert "The platform backs up this instance." in text
    assert "not backed up automatically" not in text
    assert "0.05 per GiB and month" in text
    assert "nightly" in browser.get(f"/admin/instances/{machine.id}/backups").text


def test_instance_shows_all_jobs_that_cover_it(browser, browser_as, add_job, machine):
    add_job()
    add_job(name="noon", starttime="12:00")
    assert customer_text(browser_as, machine).count("The platform backs up this instance.") == 2
    text = browser.get(f"/admin/instances/{machine.id}/backups").text
    assert ("nightly" in text, "noon" in text) == (True, True)


def customer_text(browser_as, machine):
    return browser_as("owner").get(f"/instances/{machine.id}/backups").text


def test_audit_log_says_backup_job(browser, add_job):
    add_job()
    page = browser.get("/admin/audit").text
    assert "Backup job" in page
    assert "Backup policy" not in page
