"""Backup plans, and backup jobs of hypervisor groups, in the admin API."""

import pytest
from sqlalchemy import event

from panel.core.db import db, session
from panel.models import BackupPolicy
from panel.services import hypervisors

PLANS, PLAN = "/api/v1/hypervisor/backup-plans", "/api/v1/hypervisor/backup-plan"
UNKNOWN_ID = "0199c0a8-0000-7000-8000-000000000000"


@pytest.fixture
def jobs_path(cast):
    return f"/api/v1/hypervisor-group/{cast.location.id}/backup-jobs"


@pytest.fixture
def create_job(api_as, jobs_path):
    """Return a function that creates a job of the location."""

    def create(**body):
        answer = api_as("admin", "POST", jobs_path, json={"keep": {"keep_daily": 7}} | body)
        assert answer.status_code == 200, answer.text
        return answer.json["data"]

    return create


@pytest.fixture
def plan(create_plan):
    return create_plan(name="gold", full_backup_time="03:30", retention_count=5)


@pytest.fixture
def create_plan(api_as):
    def create(**body):
        answer = api_as("admin", "POST", PLANS, json={"retention_count": 7} | body)
        assert answer.status_code == 200, answer.text
        return answer.json["data"]

    return create


def test_job_has_what_was_sent(api_as, cast, jobs_path, create_job, destination):
    """ENV-01: rows of the list are in `data`."""
    body = {
        "name": "nightly",
        "target_type": "hypervisor",
        "target_value": cast.node.id,
        "storage": destination.id,
        "schedule": "sun 04:15",
        "keep": {"keep_weekly": 8, "keep_last": None},
        "mode": "snapshot",
        "compress": "zstd",
        "backup_device": "primary",
        "max_incremental_chain": 3,
        "enabled": False,
        "comment": "agreed",
    }
    job = create_job(**body)
    rules = dict.fromkeys(("keep_last", "keep_within_days", "keep_daily", "keep_monthly", "keep_yearly"), 0)
    assert {name: job[name] for name in body} == body | {"keep": rules | {"keep_weekly": 8}}
    assert (job["hypervisor_group_id"], job["storage_name"]) == (cast.location.id, "backups-1")
    assert (job["retention_mode"], job["plan_id"], job["next_run_at"]) == ("gfs", None, None)
    answer = api_as("admin", "GET", jobs_path).json
    assert answer.keys() <= {"success", "message", "data", "meta"}
    assert answer["data"] == [job]


def test_defaults_of_a_job(create_job):
    job = create_job()
    assert (job["name"], job["schedule"], job["enabled"], job["target_type"]) == ("Laboratory", "02:00", True, "all")
    assert (job["storage"], job["comment"], job["backup_device"]) == (None, "", "all")
    assert job["next_run_at"].endswith("02:00:00Z")


def test_job_is_changed_and_deleted(api_as, jobs_path, create_job):
    job = create_job(schedule="sun 04:15")
    path = f"{jobs_path}/{job['id']}"
    changed = api_as("admin", "PUT", path, json={"schedule": "Mon 05:00"}).json["data"]
    assert (changed["schedule"], changed["keep"]) == ("mon 05:00", job["keep"])
    changed = api_as("admin", "PUT", path, json={"schedule": "05:00", "keep": {"keep_monthly": 2}}).json["data"]
    assert (changed["schedule"], changed["keep"]["keep_monthly"], changed["keep"]["keep_daily"]) == ("05:00", 2, 0)
    assert api_as("admin", "PUT", path, json={"enabled": False}).json["data"]["next_run_at"] is None
    assert api_as("admin", "DELETE", path).status_code == 200
    assert api_as("admin", "DELETE", path).status_code == 404
    assert api_as("admin", "GET", jobs_path).json["data"] == []


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"keep": None}, "keep"),
        ({"keep": {}}, "keep"),
        ({"keep": {"keep_daily": 0}}, "keep"),
        ({"keep": {"keep_yearly": 31}}, "keep.keep_yearly"),
        ({"keep": {"keep_hourly": 1}}, "keep.keep_hourly"),
        ({"plan_id": UNKNOWN_ID}, "plan_id"),
        ({"storage": UNKNOWN_ID}, "storage"),
        ({"schedule": "25:00"}, "schedule"),
        ({"schedule": "someday 02:00"}, "schedule"),
        ({"mode": "stop"}, "mode"),
        ({"compress": "lzo"}, "compress"),
        ({"target_type": "pool"}, "target_type"),
        ({"target_type": "hypervisor"}, "target_value"),
        ({"target_type": "hypervisor", "target_value": UNKNOWN_ID}, "target_value"),
        ({"target_value": UNKNOWN_ID}, "target_value"),
        ({"enabled": "yes"}, "enabled"),
        ({"priority": 1}, "priority"),
    ],
)
def test_wrong_fields_are_refused_by_name(api_as, jobs_path, create_job, body, field):
    answer = api_as("admin", "POST", jobs_path, json={"keep": {"keep_daily": 7}} | body)
    assert (answer.status_code, list(answer.json["errors"])) == (422, [field]), answer.text
    job = create_job()
    answer = api_as("admin", "PUT", f"{jobs_path}/{job['id']}", json=body)
    assert (answer.status_code, list(answer.json["errors"])) == (422, [field]), answer.text


def test_objects_of_others_are_unknown(api_as, cast, create_policy, create_job, jobs_path):
    """A job belongs to its group, a target to the group, and a plan is a policy of the platform."""
    other = hypervisors.create_group(name="other", display_name="Other")
    node = hypervisors.create(other, name="n2", driver="simulated", uri="simulated://2", storage_path="/srv")
    session.commit()
    foreign = f"/api/v1/hypervisor-group/{other.id}/backup-jobs"
    job = create_job()
    for method in ("PUT", "DELETE"):
        assert api_as("admin", method, f"{foreign}/{job['id']}", json={}).status_code == 404
    assert api_as("admin", "GET", foreign).json["data"] == []
    assert api_as("admin", "GET", f"/api/v1/hypervisor-group/{UNKNOWN_ID}/backup-jobs").status_code == 404
    body = {"keep": {"keep_last": 1}, "target_type": "hypervisor", "target_value": node.id}
    assert list(api_as("admin", "POST", jobs_path, json=body).json["errors"]) == ["target_value"]
    for policy_id in (create_policy()["id"], job["id"]):
        assert api_as("admin", "GET", f"{PLAN}/{policy_id}").status_code == 404
        assert list(api_as("admin", "POST", jobs_path, json={"plan_id": policy_id}).json["errors"]) == ["plan_id"]
        body = {"default_backup_policy_id": policy_id}
        assert api_as("admin", "PATCH", f"/api/v1/hypervisor/group/{cast.location.id}", json=body).status_code == 422
    assert api_as("admin", "GET", f"/api/v1/backup-policy/{job['id']}").status_code == 404
    assert job["id"] not in [row["id"] for row in api_as("admin", "GET", "/api/v1/backup-policies").json["data"]]


def test_plan_is_a_policy_of_the_platform(api_as, create_plan, create_policy, destination):
    create_policy()
    plan = create_plan(name="gold", storage=destination.id)
    assert (plan["storage"], plan["storage_name"], plan["jobs"]) == (destination.id, "backups-1", [])
    assert api_as("admin", "GET", f"{PLAN}/{plan['id']}").json["data"] == plan
    assert api_as("admin", "GET", PLANS).json["data"] == [plan], "no policies of customers"
    assert api_as("admin", "GET", f"/api/v1/backup-policy/{plan['id']}").json["data"]["name"] == "gold"
    changed = api_as("admin", "PATCH", f"{PLAN}/{plan['id']}", json={"storage": None, "name": "silver"}).json["data"]
    assert (changed["storage"], changed["storage_name"], changed["name"]) == (None, None, "silver")
    assert changed["retention_count"] == 7
    answer = api_as("admin", "PATCH", f"{PLAN}/{plan['id']}", json={"storage": UNKNOWN_ID})
    assert (answer.status_code, list(answer.json["errors"])) == (422, ["storage"])
    assert api_as("admin", "DELETE", f"{PLAN}/{plan['id']}").status_code == 200
    assert api_as("admin", "GET", f"{PLAN}/{plan['id']}").status_code == 404


def test_job_follows_its_plan(api_as, jobs_path, plan, destination):
    job = api_as("admin", "POST", jobs_path, json={"plan_id": plan["id"]}).json["data"]
    assert (job["plan_name"], job["schedule"], job["retention_mode"], job["retention_count"]) == (
        "gold",
        "03:30",
        "count",
        5,
    )
    changes = {"full_backup_time": "04:00", "retention_mode": "gfs", "keep_daily": 3, "storage": destination.id}
    assert api_as("admin", "PATCH", f"{PLAN}/{plan['id']}", json=changes).json["data"]["jobs"][0]["id"] == job["id"]
    job = api_as("admin", "GET", jobs_path).json["data"][0]
    assert (job["schedule"], job["keep"]["keep_daily"], job["storage"]) == ("04:00", 3, destination.id)
    assert job["next_run_at"].endswith("04:00:00Z")
    path = f"{jobs_path}/{job['id']}"
    answer = api_as("admin", "PUT", path, json={"schedule": "05:00"})
    assert (answer.status_code, list(answer.json["errors"])) == (422, ["schedule"])
    answer = api_as("admin", "DELETE", f"{PLAN}/{plan['id']}")
    assert (answer.status_code, answer.json["reason"]) == (409, "plan_in_use")
    own = api_as("admin", "PUT", path, json={"plan_id": None, "schedule": "05:00"}).json["data"]
    assert (own["plan_id"], own["schedule"], own["keep"]) == (None, "05:00", job["keep"])
    assert api_as("admin", "DELETE", f"{PLAN}/{plan['id']}").status_code == 200


def test_chosen_destination_cannot_be_deleted(api_as, create_job, destination):
    create_job(storage=destination.id)
    answer = api_as("admin", "DELETE", f"/api/v1/hypervisor/backup-storage/{destination.id}")
    assert (answer.status_code, answer.json["reason"]) == (409, "destination_in_use")


def test_jobs_of_a_deleted_group_or_hypervisor_are_deleted(api_as, cast, create_job):
    group = hypervisors.create_group(name="other", display_name="Other")
    node = hypervisors.create(group, name="n2", driver="simulated", uri="simulated://2", storage_path="/srv")
    session.commit()
    path, keep = f"/api/v1/hypervisor-group/{group.id}/backup-jobs", {"keep": {"keep_last": 1}}
    api_as("admin", "POST", path, json=keep | {"target_type": "hypervisor", "target_value": node.id})
    api_as("admin", "POST", path, json=keep)
    hypervisors.delete(node)
    session.commit()
    assert [row["target_type"] for row in api_as("admin", "GET", path).json["data"]] == ["all"]
    session.expire_all()
    assert api_as("admin", "DELETE", f"/api/v1/hypervisor/group/{group.id}").status_code == 200
    assert session.query(BackupPolicy).count() == 0


def test_lists_have_a_constant_number_of_queries(api_as, jobs_path, plan):
    def count_queries(path):
        statements = []
        listener = lambda *args: statements.append(args[2])  # noqa: E731
        event.listen(db.engine, "before_cursor_execute", listener)
        assert api_as("admin", "GET", path).status_code == 200
        event.remove(db.engine, "before_cursor_execute", listener)
        return len(statements)

    add = lambda: api_as("admin", "POST", jobs_path, json={"plan_id": plan["id"]})  # noqa: E731
    add()
    for path in (jobs_path, PLANS):
        count_queries(path)
        before = count_queries(path)
        add()
        assert count_queries(path) == before
