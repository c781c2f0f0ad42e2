"""The platform's dashboard, search, health, periodic jobs, roles and currency in the admin API."""

from datetime import timedelta

import pytest
from redis import RedisError

from panel.auth import permissions
from panel.core import clock, context
from panel.core.db import session
from panel.models import Hypervisor, Storage, Task
from panel.services import schedule_runs, workers
from worker.engine import scheduler
from worker.engine.registry import PeriodicJob


class FakeRedis:
    """The two commands on hashes that the record of periodic jobs uses."""

    def __init__(self):
        self.values = {}

    def hset(self, key, name, text):
        self.values[name.encode()] = text.encode()

    def hgetall(self, key):
        return self.values


@pytest.fixture
def redis(rolled_back_app, monkeypatch):
    monkeypatch.setattr(context.current(), "redis", redis := FakeRedis())
    return redis


@pytest.fixture
def healthy_platform(cast, monkeypatch):
    monkeypatch.setattr(workers, "count_alive", lambda: 2)
    for hypervisor in session.query(Hypervisor):
        hypervisor.status, hypervisor.seen_at = "up", clock.now()
    session.commit()


def get_data(api_as, path):
    answer = api_as("admin", "GET", f"/api/v1/{path}")
    assert answer.status_code == 200, answer.text
    return answer.json["data"]


def test_health_of_healthy_platform_has_no_problems(api_as, healthy_platform):
    health = get_data(api_as, "system/health")
    assert (health["healthy"], health["problems"], health["workers"]) == (True, [], 2)
    assert {node["status"] for node in health["hypervisors"]} == {"up"}


def test_health_names_each_problem(api_as, cast, healthy_platform, monkeypatch):
    monkeypatch.setattr(workers, "count_alive", lambda: 0)
    instance = cast.instance()
    session.add(Task(kind="instance_start", resource_type="instance", resource_id=instance.id, status="queued"))
    session.flush()
    session.query(Hypervisor).first().status = "down"
    session.query(Task).filter_by(status="queued").update({"queued_at": clock.now() - timedelta(minutes=5)})
    session.commit()
    health = get_data(api_as, "system/health")
    assert health["healthy"] is False
    assert {"no_workers", "slow_queue", "hypervisors"} <= set(health["problems"])
    assert health["tasks_queued"] >= 1
    assert health["oldest_queued_at"]


def test_health_without_redis_is_answered(api_as, healthy_platform, monkeypatch):
    def fail():
        raise RedisError("away")

    monkeypatch.setattr(workers, "count_alive", fail)
    health = get_data(api_as, "system/health")
    assert (health["workers"], health["problems"]) == (None, ["redis_unreachable"])


def test_dashboard_counts_platform(api_as, cast, healthy_platform):
    cast.instance()
    dashboard = get_data(api_as, "dashboard")
    assert dashboard["instances"]["total"] == sum(dashboard["instances"]["states"].values()) == 1
    assert dashboard["hypervisors"] == {"up": session.query(Hypervisor).count()}
    assert dashboard["customers"] >= 2
    assert dashboard["problems"] == []
    assert [location["instances"] for location in dashboard["locations"] if location["instances"]] == [1]


def test_platform_search_finds_resources_of_all_customers(api_as, cast):
    instance = cast.instance(display_name="Shop of somebody")
    results = get_data(api_as, "dashboard/search?q=Shop of somebody")["results"]
    assert ("instance", instance.id) in {(result["type"], result["id"]) for result in results}
    assert get_data(api_as, "dashboard/search?q=nothing-like-this") == {"results": []}
    assert api_as("admin", "GET", "/api/v1/dashboard/search").status_code == 422


def test_scheduler_records_starts_of_periodic_jobs(api_as, redis, monkeypatch):
    def succeed():
        pass

    def fail():
        raise ValueError("secret")

    jobs = [PeriodicJob(succeed, 60, True), PeriodicJob(fail, 5, True)]
    scheduler.start_job(jobs[0])
    with pytest.raises(ValueError, match="secret"):
        scheduler.start_job(jobs[1])
    rows = {row["command"]: row for row in get_data(api_as, "system/scheduler")}
    assert rows.keys() == {job.path for job in jobs}
    assert (rows[jobs[0].path]["interval"], rows[jobs[0].path]["last_error"]) == (60, None)
    assert rows[jobs[1].path]["last_error"] == "ValueError"  # without the message
    path = f"system/scheduler/command/{jobs[0].path}"
    assert get_data(api_as, path) == rows[jobs[0].path]
    assert api_as("admin", "GET", "/api/v1/system/scheduler/command/none").status_code == 404


def test_jobs_of_former_releases_leave_the_list(redis, monkeypatch):
    schedule_runs.record("old.job", 60, runs_in="worker")
    schedule_runs.record("weekly.job", 7 * 86_400, runs_in="worker")
    in_two_days = clock.now() + timedelta(days=2)
    monkeypatch.setattr(clock, "now", lambda: in_two_days)
    assert [job["command"] for job in schedule_runs.listing()] == ["weekly.job"]


def test_scheduler_without_redis_is_unavailable(api_as, monkeypatch):
    def fail():
        raise RedisError("away")

    monkeypatch.setattr(schedule_runs, "listing", fail)
    assert api_as("admin", "GET", "/api/v1/system/scheduler").status_code == 503


def test_roles_have_permissions_and_operators(api_as):
    roles = {role["id"]: role for role in get_data(api_as, "roles")}
    assert roles.keys() == permissions.OPERATOR_ROLES.keys()
    assert all(role["built_in"] for role in roles.values())
    assert set(roles["full"]["permissions"]) == set(permissions.ADMIN_PERMISSIONS)
    assert "admin:settings:write" not in roles["support"]["permissions"]
    before = roles["support"]["operators"]
    user_id = api_as("owner", "GET", "/api/profile").json["data"]["id"]
    api_as("admin", "POST", f"/api/v1/user/{user_id}/promote", json={"role": "support"})
    assert get_data(api_as, "role/support")["operators"] == before + 1
    assert api_as("admin", "GET", "/api/v1/role/owner").status_code == 404


def test_currencies_are_that_of_the_installation(api_as, app):
    (currency,) = get_data(api_as, "cloud-service/currencies")
    assert currency == {"id": "EUR", "code": "EUR", "name": "Euro", "symbol": "€", "is_default": True}
    page = api_as("owner", "GET", "/api/cloud-service/currencies").json
    assert (page["data"], page["total"]) == ([currency], 1)


def test_storage_metrics_have_use_and_allocation(api_as, cast):
    storage = session.query(Storage).first()
    storage.capacity, storage.free, storage.overcommit = 100 * 1024**3, 25 * 1024**3, 2.0
    session.commit()
    metrics = get_data(api_as, f"hypervisor/storage/{storage.id}/metrics")
    assert (metrics["used"], metrics["used_percent"], metrics["allocatable"]) == (75 * 1024**3, 75.0, 200)
    assert metrics["allocated"] == get_data(api_as, f"hypervisor/storage/{storage.id}")["promised"]
    storage.capacity = storage.free = 0
    session.commit()
    assert get_data(api_as, f"hypervisor/storage/{storage.id}/metrics")["used_percent"] == 0


def test_cloud_service_settings_are_settings_of_the_platform(api_as):
    path = "/api/v1/cloud-service/settings"
    answer = api_as("admin", "POST", path, json={"managed_backup_price": 0.5})
    assert answer.status_code == 200
    area = {"billing_enabled": False, "managed_backup_price": 0.5, "customers_change_plans": True}
    assert answer.json["data"] == {"settings": {"cloud_service": area}}
    assert get_data(api_as, "system/settings")["settings"]["system"]["managed_backup_price"] == 0.5
    again = api_as("admin", "POST", path, json=answer.json["data"])
    assert again.json["data"] == answer.json["data"] == get_data(api_as, "cloud-service/settings")
    refused = api_as("admin", "POST", path, json={"rate_limit_requests": 1})
    assert (refused.status_code, list(refused.json["errors"])) == (422, ["rate_limit_requests"])
