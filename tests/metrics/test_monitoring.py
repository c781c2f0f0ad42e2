"""Monitoring in the customers' API: current values, alerts that fire, counts and series."""

import pytest

from panel.core import clock
from panel.core.db import session
from panel.models import AlertState
from panel.services import alert_rules
from tests.support.cast import UNKNOWN_ID
from tests.support.team import add_member  # noqa: F401  (fixtures)

RULE = {"name": "r", "resource_type": "instance", "metric": "cpu_pct", "operator": "gt", "threshold": 90}


def add_firing_alert(cast, instance):
    rule = alert_rules.create(cast.owner, **RULE)
    session.add(AlertState(rule_id=rule.id, resource_id=instance.id, status="firing", fired_at=clock.now()))
    session.commit()


def test_monitoring_lists_current_values_and_firing_rules(api_as, cast, add_measured, measure):
    idle, busy = cast.instance(), add_measured()
    measure(busy, 0, cpu_percent=97.5)
    add_firing_alert(cast, busy)
    answer = api_as("owner", "GET", "/api/monitoring")
    assert answer.status_code == 200
    rows = {row["id"]: row for row in answer.json["data"]}
    assert (rows[busy.id]["cpu_percent"], rows[busy.id]["firing"]) == (97.5, 1)
    assert rows[busy.id]["measured_at"]
    assert (rows[idle.id]["cpu_percent"], rows[idle.id]["measured_at"], rows[idle.id]["firing"]) == (
        None,
        None,
        0,
    )
    assert api_as("outsider", "GET", "/api/monitoring").json["total"] == 0


def test_old_samples_are_not_current(api_as, cast, measure):
    measure(cast.instance(), 120, cpu_percent=50.0)
    (row,) = api_as("owner", "GET", "/api/monitoring").json["data"]
    assert row["cpu_percent"] is None


def test_monitoring_query_count_is_constant(api_as, add_measured, queries):
    counts = []
    for _ in range(3):
        add_measured()
        queries.clear()
        assert api_as("owner", "GET", "/api/monitoring").status_code == 200
        counts.append(len(queries))
    assert counts[0] == counts[2]


def test_monitoring_summary_counts_own_resources(api_as, cast, add_measured):
    cast.instance()
    add_firing_alert(cast, add_measured())
    api_as("owner", "POST", "/api/notification-channels", json={"name": "mails", "type": "mail", "enabled": False})
    assert api_as("owner", "GET", "/api/monitoring/summary").json["data"] == {
        "resources": 2,
        "resources_running": 1,
        "alert_rules": 1,
        "alert_rules_enabled": 1,
        "firing": 1,
        "channels": 1,
        "channels_disabled": 1,
    }
    assert set(api_as("outsider", "GET", "/api/monitoring/summary").json["data"].values()) == {0}


def test_series_of_monitoring_equals_series_of_instance(api_as, add_measured):
    instance = add_measured()
    path = f"/api/monitoring/metrics/instance/{instance.id}"
    series = api_as("owner", "GET", f"{path}?timeRange=30m").json
    assert series["points"]
    assert (
        series["points"] == api_as("owner", "GET", f"/api/instance/{instance.id}/metrics?timeRange=30m").json["points"]
    )
    foreign, unknown = (api_as("outsider", "GET", each) for each in (path, path.replace(instance.id, UNKNOWN_ID)))
    assert (foreign.status_code, foreign.json) == (404, unknown.json)
    assert api_as("owner", "GET", f"/api/monitoring/metrics/database/{instance.id}").status_code == 404


@pytest.mark.parametrize("path", ["", "/summary", "/metrics/instance/{}"])
def test_member_needs_both_permissions(api_as, add_member, add_measured, path):
    path = f"/api/monitoring{path}".format(add_measured().id)
    for name, allowed, status in (
        ("watcher", ["monitoring.view"], 403 if "/metrics/" in path else 200),
        ("viewer2", ["instances.view"], 403),
        ("both", ["monitoring.view", "instances.view"], 200),
    ):
        add_member(name, allowed)
        assert api_as(name, "GET", path).status_code == status, name
    assert api_as("watcher", "GET", "/api/monitoring").json["data"] == []
    assert api_as("watcher", "GET", "/api/monitoring/summary").json["data"]["resources"] == 0


def test_member_sees_only_granted_instances(api_as, add_member, add_measured):
    granted, _ = add_measured(), add_measured()
    add_member("limited", ["monitoring.view", "instances.view"], reach="chosen", grants=[granted])
    assert [row["id"] for row in api_as("limited", "GET", "/api/monitoring").json["data"]] == [granted.id]
    assert api_as("limited", "GET", "/api/monitoring/summary").json["data"]["resources"] == 1
