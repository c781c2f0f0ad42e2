"""`/metrics`: figures of the panel for its operators."""

import os
from datetime import timedelta

import pytest
from prometheus_client.parser import text_string_to_metric_families
from redis import RedisError
from sqlalchemy.exc import OperationalError

from panel.core import clock
from panel.core.config import Config, ConfigError
from panel.core.db import session
from panel.models import Hypervisor, InstallationBackup, Storage, Task, WebhookDelivery, WebhookSubscription
from panel.services import backup_destinations, platform_metrics, workers
from panel.web import request_metrics

TOKEN = "m" * 32


@pytest.fixture
def scrape(rolled_back_app, change_config):
    """Return a function that returns {(name, values of the labels): value} of a scrape."""
    change_config(metrics_token=TOKEN)

    def call():
        answer = rolled_back_app.test_client().get("/metrics", headers={"Authorization": f"Bearer {TOKEN}"})
        assert answer.status_code == 200, answer.text
        assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert answer.headers["Cache-Control"] == "no-store"
        return {
            (sample.name, *sample.labels.values()): sample.value
            for family in text_string_to_metric_families(answer.text)
            for sample in family.samples
        }

    return call


@pytest.fixture
def live_workers(monkeypatch):
    monkeypatch.setattr(workers, "count_alive", lambda: 3)


@pytest.mark.parametrize("header", [None, "Bearer ", "Bearer x", f"Basic {TOKEN}", f"Bearer {TOKEN}x", "Bearer é"])
def test_wrong_token_is_refused(rolled_back_app, change_config, header):
    change_config(metrics_token=TOKEN)
    headers = {"Authorization": header} if header else {}
    answer = rolled_back_app.test_client().get("/metrics", headers=headers)
    assert answer.status_code == 401
    assert "panel_" not in answer.text


@pytest.mark.parametrize("caller", ["owner", "admin"])
def test_other_tokens_do_not_open_metrics(rolled_back_app, change_config, cast, caller):
    change_config(metrics_token=TOKEN)
    assert rolled_back_app.test_client().get("/metrics", headers=cast.headers(caller)).status_code == 401


@pytest.mark.parametrize("header", ["Bearer ", f"Bearer {TOKEN}", ""])
def test_without_configured_token_there_is_no_page(rolled_back_app, header):
    answer = rolled_back_app.test_client().get("/metrics", headers={"Authorization": header})
    assert answer.status_code == 404


@pytest.mark.parametrize("token", ["short", "a b" * 20, "é" * 40])
def test_unsafe_token_stops_start(tmp_path, token):
    with pytest.raises(ConfigError, match="PANEL_METRICS_TOKEN"):
        Config(data_dir=tmp_path, metrics_token=token)


def test_requests_are_counted_by_family_and_status(rolled_back_app, api_as, scrape, live_workers):
    name = "panel_http_request_duration_seconds_count"
    keys = [(name, "user_instance", "200"), (name, "user_instance", "401"), (name, "none", "404")]
    before = scrape()
    api_as("owner", "GET", "/api/instances")
    api_as("nobody", "GET", "/api/instances")
    rolled_back_app.test_client().get("/nothing-here")
    after = scrape()
    assert [after[key] - before.get(key, 0) for key in keys] == [1, 1, 1]
    assert after["panel_http_request_duration_seconds_sum", "user_instance", "200"] > 0


def add_task(node, **values):
    session.add(Task(kind="instance_start", resource_type="instance", resource_id="x", hypervisor_id=node.id, **values))


def test_tasks_and_queue_age_are_reported(cast, scrape, live_workers):
    assert scrape()["panel_task_queue_age_seconds",] == 0
    now = clock.now()
    add_task(cast.node, queued_at=now - timedelta(seconds=90))
    add_task(cast.node, queued_at=now - timedelta(seconds=500), status="running")
    add_task(cast.node, status="failed", finished_at=now)
    add_task(cast.node, status="failed", id=platform_metrics.make_first_id(now.timestamp() - 3700))
    session.commit()
    samples = scrape()
    assert samples["panel_tasks", "instance_start", "queued"] == 1
    assert samples["panel_tasks", "instance_start", "running"] == 1
    assert ("panel_tasks", "instance_start", "failed") not in samples
    assert samples["panel_recent_tasks", "instance_start", "failed"] == 1
    assert 89 < samples["panel_task_queue_age_seconds",] < 150


@pytest.mark.parametrize(("status", "seen_seconds_ago", "up"), [("up", 1, 1), ("up", 3600, 0), ("down", 1, 0)])
def test_hypervisors_and_storages_are_reported(cast, scrape, live_workers, status, seen_seconds_ago, up):
    node = session.get(Hypervisor, cast.node.id)
    node.status, node.seen_at = status, clock.now() - timedelta(seconds=seen_seconds_ago)
    node.storages[0].capacity, node.storages[0].free = 1000, 250
    session.add(Storage(hypervisor_id=node.id, name="unused", path="/unused", enabled=False))
    session.commit()
    samples = scrape()
    assert samples["panel_hypervisor_up", node.name] == up
    assert samples["panel_hypervisor_maintenance", node.name] == 0
    assert samples["panel_hypervisor_last_seen_timestamp_seconds", node.name] == pytest.approx(node.seen_at.timestamp())
    assert samples["panel_storage_size_bytes", node.name, node.storages[0].name] == 1000
    assert samples["panel_storage_free_bytes", node.name, node.storages[0].name] == 250
    assert ("panel_storage_free_bytes", node.name, "unused") not in samples


def test_webhook_deliveries_are_reported(cast, scrape, live_workers):
    subscription = WebhookSubscription(
        account_id=cast.owner.id,
        name="x",
        url="https://example.com/",
        secret="s",
        event_kinds=["*"],
        disabled_at=clock.now(),
    )
    session.add(subscription)
    session.flush()
    for status, seconds_ago in (("pending", 40), ("pending_retry", -600), ("delivered", 0), ("failed_permanent", 0)):
        due_at = clock.now() - timedelta(seconds=seconds_ago)
        common = {"account_id": cast.owner.id, "subscription_id": subscription.id, "event_kind": "instance.started"}
        session.add(WebhookDelivery(status=status, due_at=due_at, test=True, **common))
    session.commit()
    samples = scrape()
    assert samples["panel_webhook_deliveries", "pending"] == samples["panel_webhook_deliveries", "pending_retry"] == 1
    assert ("panel_webhook_deliveries", "delivered") not in samples
    assert samples["panel_recent_webhook_deliveries", "delivered"] == 1
    assert samples["panel_recent_webhook_deliveries", "failed_permanent"] == 1
    assert 39 < samples["panel_webhook_delay_seconds",] < 100
    assert samples["panel_webhook_subscriptions_disabled",] == 1


def test_installation_backups_are_reported(scrape, live_workers, tmp_path):
    name = "panel_installation_backup_timestamp_seconds"
    assert (name, "completed") not in scrape()
    place = backup_destinations.create(name="local", storage_type="local", config={"path": str(tmp_path)})
    session.flush()
    now = clock.now()
    for status, hours in (("completed", 30), ("completed", 20), ("failed", 1), ("running", None)):
        finished_at = None if hours is None else now - timedelta(hours=hours)
        session.add(
            InstallationBackup(destination_id=place.id, is_scheduled=True, status=status, finished_at=finished_at)
        )
    session.commit()
    samples = scrape()
    assert now.timestamp() - samples[name, "completed"] == pytest.approx(20 * 3600, abs=1)
    assert now.timestamp() - samples[name, "failed"] == pytest.approx(3600, abs=1)


def test_scrape_without_redis_succeeds(scrape, monkeypatch):
    def fail():
        raise RedisError("away")

    monkeypatch.setattr(workers, "count_alive", fail)
    samples = scrape()
    assert samples["panel_redis_up",] == 0
    assert samples["panel_database_up",] == 1
    assert ("panel_workers",) not in samples


def test_scrape_without_database_succeeds(scrape, live_workers, monkeypatch):
    def fail():
        error = type("DatabaseError", (Exception,), {"sqlite_errorcode": 5})("locked")
        raise OperationalError("select", {}, error)

    monkeypatch.setattr(platform_metrics, "list_task_families", fail)
    samples = scrape()
    assert samples["panel_database_up",] == 0
    assert samples["panel_redis_up",] == 1
    assert samples["panel_workers",] == 3
    assert ("panel_hypervisor_up",) not in samples


def test_query_count_is_constant(cast, scrape, live_workers, queries):
    queries.clear()
    scrape()
    before = len(queries)
    for _ in range(5):
        add_task(cast.node)
    session.commit()
    queries.clear()
    scrape()
    assert len(queries) == before <= 9


def test_shared_files_of_killed_servers_are_removed(tmp_path, monkeypatch):
    monkeypatch.delenv(request_metrics.SHARED_FOLDER_VARIABLE, raising=False)
    abandoned = tmp_path / f"{request_metrics.FOLDER_PREFIX}abandoned"
    abandoned.mkdir()
    (abandoned / request_metrics.LOCK_NAME).touch()
    with request_metrics.share_between_processes(tmp_path):
        (used,) = tmp_path.iterdir()
        assert used != abandoned
        assert os.environ[request_metrics.SHARED_FOLDER_VARIABLE] == str(used)
        request_metrics.remove_abandoned_folders(tmp_path)
        assert used.is_dir()
    assert list(tmp_path.iterdir()) == []
    monkeypatch.delenv(request_metrics.SHARED_FOLDER_VARIABLE)
