"""What programs read of it."""

from datetime import datetime, timedelta

import pytest

from panel.core import clock
from panel.core.db import session
from panel.schemas.metrics import METRIC_DESCRIPTIONS, TIME_RANGES

SPANS = {"30m": (1800, 15), "1h": (3600, 15), "12h": (43200, 300), "1d": (86400, 300), "1w": (604800, 3600)}


def moment(text):
    return datetime.fromisoformat(text)


@pytest.fixture
def machine_with_metrics(machine, poll_node):
    """A machine that ran for fifty minutes under the eyes of the panel."""
    poll_node(3000)
    return machine


def test_the_series_honours_the_time_range(api_as, machine_with_metrics):
    """INS-100"""
    found = {}
    for time_range in TIME_RANGES:
        answer = api_as("owner", "GET", f"/api/instance/{machine_with_metrics.id}/metrics?timeRange={time_range}")
        assert answer.status_code == 200
        found[time_range] = body = answer.json
        length, step = SPANS[time_range]
        assert (body["time_range"], body["step"]) == (time_range, step)
        assert moment(body["until"]) - moment(body["since"]) == timedelta(seconds=length)
        assert all(
            set(point) == {"at"} | {f"{n}{e}" for n in METRIC_DESCRIPTIONS for e in ("", "_max")}
            for point in body["points"]
        )
        begun = [moment(point["at"]) for point in body["points"]]
        assert begun == sorted(begun)
        assert begun[0] > moment(body["since"]) - timedelta(seconds=step)
    assert len(found["30m"]["points"]) == 120
    assert len(found["1h"]["points"]) > 150
    assert len(found["12h"]["points"]) in (10, 11)
    assert api_as("owner", "GET", f"/api/instance/{machine_with_metrics.id}/metrics").json["time_range"] == "1h"


def test_operators_read_the_same_series(api_as, machine_with_metrics):
    """INS-98"""
    for time_range in TIME_RANGES:
        answer = api_as(
            "admin", "GET", f"/api/v1/instance/{machine_with_metrics.id}/metrics/series?timeRange={time_range}"
        )
        assert answer.status_code == 200
        own = api_as("owner", "GET", f"/api/instance/{machine_with_metrics.id}/metrics?timeRange={time_range}").json
        assert answer.json["data"]["points"] == own["points"]


@pytest.mark.parametrize("wrong", ["2y", "", "1H", "60"])
def test_an_unknown_time_range_is_refused(api_as, machine, wrong):
    """INS-99"""
    assert api_as("owner", "GET", f"/api/instance/{machine.id}/metrics?timeRange={wrong}").status_code == 422
    assert api_as("admin", "GET", f"/api/v1/instance/{machine.id}/metrics/series?timeRange={wrong}").status_code == 422


def test_a_series_is_one_query_however_long(api_as, machine_with_metrics, queries):
    asked = []
    api_as("owner", "GET", "/api/instances")  # the token is known from now on
    for time_range in TIME_RANGES:
        queries.clear()
        api_as("owner", "GET", f"/api/instance/{machine_with_metrics.id}/metrics?timeRange={time_range}")
        assert sum("instance_metrics" in statement for statement in queries) == 1
        asked.append(len(queries))
    assert len(set(asked)) == 1


def test_others_see_nothing_of_it(api_as, machine_with_metrics):
    assert api_as("outsider", "GET", f"/api/instance/{machine_with_metrics.id}/metrics").status_code == 404


def test_what_a_machine_uses_now(api_as, machine_with_metrics, fake_time):
    """INS-94, INS-97"""
    machine_with_metrics.agent_checked_at = clock.now()
    machine_with_metrics.agent_seen_at = machine_with_metrics.agent_checked_at
    session.commit()
    body = api_as("admin", "GET", f"/api/v1/instance/{machine_with_metrics.id}/metrics").json["data"]
    assert (body["status"], body["state"]) == (1, "running")
    assert body["uptime"] >= 3000
    assert 0 < body["cpu"]["percent"] <= 100
    assert 0 < body["ram"]["percent"] <= 100
    assert body["ram"]["total"] == machine_with_metrics.ram
    assert body["network"]["receive_mbps"] > 0
    assert body["network"]["transmit_mbps"] > 0
    assert body["disk"]["read_iops"] > 0
    assert body["agent"] == {"available": True, "reason": None}
    assert clock.now() - moment(body["measured_at"]) < timedelta(minutes=1)


def test_a_machine_that_is_off_uses_nothing(api_as, machine_with_metrics, node, poll_node):
    """INS-95"""
    node.guest_powers_off(machine_with_metrics.id)
    poll_node()
    body = api_as("admin", "GET", f"/api/v1/instance/{machine_with_metrics.id}/metrics").json["data"]
    assert (body["status"], body["uptime"]) == (0, 0)
    assert body["cpu"]["percent"] is None
    assert body["agent"] == {"available": False, "reason": "not_running"}


@pytest.mark.parametrize("seen", [None, timedelta(minutes=2)])
def test_an_agent_that_is_silent(api_as, machine_with_metrics, seen):
    """INS-96"""
    machine_with_metrics.agent_checked_at = clock.now()
    machine_with_metrics.agent_seen_at = seen and clock.now() - seen
    session.commit()
    body = api_as("admin", "GET", f"/api/v1/instance/{machine_with_metrics.id}/metrics").json["data"]
    assert body["agent"] == {"available": False, "reason": "agent_not_reporting"}


def test_figures_are_null_when_none_was_taken_lately(api_as, machine_with_metrics, fake_time):
    fake_time.advance(120)
    body = api_as("admin", "GET", f"/api/v1/instance/{machine_with_metrics.id}/metrics").json["data"]
    assert body["measured_at"] is None
    assert body["cpu"]["percent"] is None
    assert body["status"] == 1


def test_operators_read_what_a_hypervisor_carries(api_as, cast, machine_with_metrics, queries, fake_time):
    path = f"/api/v1/hypervisor/{cast.node.id}/metrics"
    queries.clear()
    found = api_as("admin", "GET", path).json["data"]
    assert len(queries) < 12
    one = api_as("admin", "GET", f"/api/v1/instance/{machine_with_metrics.id}/metrics").json["data"]
    assert (found["status"], found["instances"], found["measured_at"]) == ("up", 1, one["measured_at"])
    assert found["cpu"]["used"] == pytest.approx(one["cpu"]["percent"] * machine_with_metrics.cpu_cores / 100, abs=0.01)
    assert found["ram"]["used"] == pytest.approx(one["ram"]["used"], abs=0.01)
    assert (found["cpu"]["promised"], found["ram"]["promised"]) == (
        machine_with_metrics.cpu_cores,
        machine_with_metrics.ram,
    )
    assert found["network"]["receive_mbps"] == pytest.approx(one["network"]["receive_mbps"], abs=0.01)
    assert [storage["name"] for storage in found["storages"]] == ["default"]
    fake_time.advance(120)
    stale = api_as("admin", "GET", path).json["data"]
    assert (stale["measured_at"], stale["instances"], stale["cpu"]["used"]) == (None, 0, 0.0)
    assert api_as("admin", "GET", "/api/v1/hypervisor/nope/metrics").status_code == 404
