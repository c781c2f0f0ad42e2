"""Metrics by the API."""

from datetime import datetime, timedelta

import pytest

from panel.core import clock
from panel.core.db import session
from panel.schemas.metrics import METRIC_DESCRIPTIONS, TIME_RANGES

RANGE_AND_STEP_SECONDS = {
    "30m": (1800, 15),
    "1h": (3600, 15),
    "12h": (43200, 300),
    "1d": (86400, 300),
    "1w": (604800, 3600),
}


def parse_time(text):
    return datetime.fromisoformat(text)


@pytest.fixture
def instance_with_metrics(running_instance, poll_node):
    """An instance that ran for two minutes while the node was polled."""
    poll_node(120)
    return running_instance


@pytest.fixture
def instance_with_long_series(running_instance, poll_node):
    """An instance that ran for fifty minutes while the node was polled."""
    poll_node(3000)
    return running_instance


def test_series_covers_requested_time_range(api_as, instance_with_long_series):
    """INS-100"""
    bodies = {}
    for time_range in TIME_RANGES:
        answer = api_as("owner", "GET", f"/api/instance/{instance_with_long_series.id}/metrics?timeRange={time_range}")
        assert answer.status_code == 200
        bodies[time_range] = body = answer.json
        seconds, step = RANGE_AND_STEP_SECONDS[time_range]
        assert (body["time_range"], body["step"]) == (time_range, step)
        assert parse_time(body["until"]) - parse_time(body["since"]) == timedelta(seconds=seconds)
        assert all(
            set(point) == {"at"} | {f"{name}{suffix}" for name in METRIC_DESCRIPTIONS for suffix in ("", "_max")}
            for point in body["points"]
        )
        times = [parse_time(point["at"]) for point in body["points"]]
        assert times == sorted(times)
        assert times[0] > parse_time(body["since"]) - timedelta(seconds=step)
    assert len(bodies["30m"]["points"]) == 120
    assert len(bodies["1h"]["points"]) > 150
    assert len(bodies["12h"]["points"]) in (10, 11)
    assert api_as("owner", "GET", f"/api/instance/{instance_with_long_series.id}/metrics").json["time_range"] == "1h"


def test_series_of_admin_api_equals_series_of_owner(api_as, instance_with_metrics):
    """INS-98"""
    for time_range in TIME_RANGES:
        answer = api_as(
            "admin", "GET", f"/api/v1/instance/{instance_with_metrics.id}/metrics/series?timeRange={time_range}"
        )
        assert answer.status_code == 200
        own = api_as("owner", "GET", f"/api/instance/{instance_with_metrics.id}/metrics?timeRange={time_range}").json
        assert answer.json["data"]["points"] == own["points"]


@pytest.mark.parametrize("wrong", ["2y", "", "1H", "60"])
def test_unknown_time_range_is_refused(api_as, running_instance, wrong):
    """INS-99"""
    assert api_as("owner", "GET", f"/api/instance/{running_instance.id}/metrics?timeRange={wrong}").status_code == 422
    assert (
        api_as("admin", "GET", f"/api/v1/instance/{running_instance.id}/metrics/series?timeRange={wrong}").status_code
        == 422
    )


def test_series_query_count_is_constant(api_as, instance_with_metrics, queries):
    query_counts = []
    api_as("owner", "GET", "/api/instances")  # caches the token
    for time_range in TIME_RANGES:
        queries.clear()
        api_as("owner", "GET", f"/api/instance/{instance_with_metrics.id}/metrics?timeRange={time_range}")
        assert sum("instance_metrics" in statement for statement in queries) == 1
        query_counts.append(len(queries))
    assert len(set(query_counts)) == 1


def test_metrics_of_other_account_are_not_found(api_as, instance_with_metrics):
    assert api_as("outsider", "GET", f"/api/instance/{instance_with_metrics.id}/metrics").status_code == 404


def test_current_metrics_of_running_instance(api_as, instance_with_metrics, fake_time):
    """INS-94, INS-97"""
    instance_with_metrics.agent_checked_at = clock.now()
    instance_with_metrics.agent_seen_at = instance_with_metrics.agent_checked_at
    session.commit()
    body = api_as("admin", "GET", f"/api/v1/instance/{instance_with_metrics.id}/metrics").json["data"]
    assert (body["status"], body["state"]) == (1, "running")
    assert body["uptime"] >= 120
    assert 0 < body["cpu"]["percent"] <= 100
    assert 0 < body["ram"]["percent"] <= 100
    assert body["ram"]["total"] == instance_with_metrics.ram
    assert body["network"]["receive_mbps"] > 0
    assert body["network"]["transmit_mbps"] > 0
    assert body["disk"]["read_iops"] > 0
    assert body["agent"] == {"available": True, "reason": None}
    assert clock.now() - parse_time(body["measured_at"]) < timedelta(minutes=1)


def test_current_metrics_of_stopped_instance_are_empty(api_as, instance_with_metrics, node, poll_node):
    """INS-95"""
    node.guest_powers_off(instance_with_metrics.id)
    poll_node()
    body = api_as("admin", "GET", f"/api/v1/instance/{instance_with_metrics.id}/metrics").json["data"]
    assert (body["status"], body["uptime"]) == (0, 0)
    assert body["cpu"]["percent"] is None
    assert body["agent"] == {"available": False, "reason": "not_running"}


@pytest.mark.parametrize("silence", [None, timedelta(minutes=2)])
def test_silent_agent_is_reported_as_unavailable(api_as, instance_with_metrics, silence):
    """INS-96"""
    instance_with_metrics.agent_checked_at = clock.now()
    instance_with_metrics.agent_seen_at = silence and clock.now() - silence
    session.commit()
    body = api_as("admin", "GET", f"/api/v1/instance/{instance_with_metrics.id}/metrics").json["data"]
    assert body["agent"] == {"available": False, "reason": "agent_not_reporting"}


def test_outdated_metrics_are_null(api_as, instance_with_metrics, fake_time):
    fake_time.advance(120)
    body = api_as("admin", "GET", f"/api/v1/instance/{instance_with_metrics.id}/metrics").json["data"]
    assert body["measured_at"] is None
    assert body["cpu"]["percent"] is None
    assert body["status"] == 1


def test_hypervisor_metrics_sum_up_its_instances(api_as, cast, instance_with_metrics, queries, fake_time):
    path = f"/api/v1/hypervisor/{cast.node.id}/metrics"
    queries.clear()
    totals = api_as("admin", "GET", path).json["data"]
    assert len(queries) < 12
    instance_metrics = api_as("admin", "GET", f"/api/v1/instance/{instance_with_metrics.id}/metrics").json["data"]
    assert (totals["status"], totals["instances"], totals["measured_at"]) == ("up", 1, instance_metrics["measured_at"])
    assert totals["cpu"]["used"] == pytest.approx(
        instance_metrics["cpu"]["percent"] * instance_with_metrics.cpu_cores / 100, abs=0.01
    )
    assert totals["ram"]["used"] == pytest.approx(instance_metrics["ram"]["used"], abs=0.01)
    assert (totals["cpu"]["promised"], totals["ram"]["promised"]) == (
        instance_with_metrics.cpu_cores,
        instance_with_metrics.ram,
    )
    assert totals["network"]["receive_mbps"] == pytest.approx(instance_metrics["network"]["receive_mbps"], abs=0.01)
    assert [storage["name"] for storage in totals["storages"]] == ["default"]
    fake_time.advance(120)
    outdated = api_as("admin", "GET", path).json["data"]
    assert (outdated["measured_at"], outdated["instances"], outdated["cpu"]["used"]) == (None, 0, 0.0)
    assert api_as("admin", "GET", "/api/v1/hypervisor/nope/metrics").status_code == 404
