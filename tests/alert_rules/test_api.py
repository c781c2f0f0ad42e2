"""Alert rules and notification channels by the API."""

import pytest
from sqlalchemy import select, text

from panel.core.db import session
from panel.models import NotificationChannel
from panel.services import settings
from tests.alert_rules.values import RULE
from tests.support.cast import UNKNOWN_ID

SLACK = {"name": "chat", "type": "slack", "config": {"webhook_url": "https://192.88.98.7/services/T0/secret"}}


def post_rule(api_as, caller="owner", **values):
    return api_as(caller, "POST", "/api/alert-rules", json={**RULE, **values})


def post_channel(api_as, caller="owner", **values):
    return api_as(caller, "POST", "/api/notification-channels", json={**SLACK, **values})


def test_rule_is_created_changed_and_deleted(api_as, cast):
    instance, channel = cast.instance(), post_channel(api_as).json["channel"]
    rule = post_rule(api_as, resource_id=instance.id, channel_ids=[channel["id"]], threshold=90.5).json["alert_rule"]
    assert (rule["resource_id"], rule["threshold"], rule["status"]) == (instance.id, 90.5, "ok")
    assert (rule["duration"], rule["reminder_interval"], rule["enabled"], rule["no_data"]) == (0, 0, True, False)
    assert [row["id"] for row in rule["channels"]] == [channel["id"]]
    listed = api_as("owner", "GET", "/api/alert-rules").json["alert_rules"]
    assert (listed["data"], listed["current_page"], listed["total"]) == ([rule], 1, 1)
    path = f"/api/alert-rule/{rule['id']}"
    changed = api_as("owner", "PATCH", path, json={"duration": 60}).json["alert_rule"]
    assert (changed["duration"], changed["name"], len(changed["channels"])) == (60, "CPU", 1)
    assert api_as("owner", "PATCH", path, json={"channel_ids": []}).json["alert_rule"]["channels"] == []
    assert api_as("owner", "GET", f"{path}/history").json["data"] == []
    answer = api_as("owner", "POST", f"{path}/acknowledge")
    assert (answer.status_code, answer.json["reason"]) == (409, "not_firing")
    assert api_as("owner", "DELETE", path).json["success"] is True
    assert api_as("owner", "GET", path).status_code == 404


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("resource_type", "managed_database"),
        ("resource_type", "load_balancer"),
        ("resource_type", "vpn_gateway"),
        ("metric", "swap_pct"),
        ("operator", "ne"),
        ("threshold", "90"),
        ("duration", -1),
        ("resource_id", UNKNOWN_ID),
        ("channel_ids", [UNKNOWN_ID]),
        ("else", 1),
    ],
)
def test_invalid_rule_is_a_field_error(api_as, field, value):
    answer = post_rule(api_as, **{field: value})
    assert (answer.status_code, list(answer.json["errors"])) == (422, [field])


def test_channel_settings_are_encrypted_and_never_returned(api_as):
    answer = post_channel(api_as)
    channel = answer.json["channel"]
    assert (channel["enabled"], channel["auto_disabled"], channel["failure_count"]) == (True, False, 0)
    assert "config" not in channel
    assert "secret" not in answer.text
    assert "secret" not in session.scalar(text("select encrypted_config from notification_channels"))
    listed = api_as("owner", "GET", "/api/notification-channels").json["channels"]
    assert listed["data"] == [channel]
    path = f"/api/notification-channel/{channel['id']}"
    assert api_as("owner", "PATCH", path, json={"name": "other", "type": "slack"}).json["channel"]["name"] == "other"
    assert session.scalars(select(NotificationChannel)).one().config == SLACK["config"]
    assert list(api_as("owner", "PATCH", path, json={"type": "discord"}).json["errors"]) == ["type"]
    assert api_as("owner", "POST", f"{path}/test").json["success"] is True
    assert api_as("owner", "DELETE", path).json["success"] is True


@pytest.mark.parametrize(
    ("type", "values", "field"),
    [
        ("slack", {}, "config.webhook_url"),
        ("discord", {"webhook_url": "https://127.0.0.1/x"}, "config.webhook_url"),
        ("webhook", {"url": "http://192.88.98.7/"}, "config.url"),
        ("webhook", {"url": "https://192.88.98.7/", "timeout": "61"}, "config.timeout"),
        ("webhook", {"url": "https://192.88.98.7/", "method": "GET"}, "config.method"),
        ("webhook", {"url": "https://192.88.98.7/", "headers": {"Host": "x"}}, "config.headers"),
        ("webhook", {"url": "https://192.88.98.7/", "headers": {"X-A": "a\r\nb: c"}}, "config.headers"),
        ("telegram", {"bot_token": "../x", "chat_id": "1"}, "config.bot_token"),
        ("mail", {"to": "somebody@example.com"}, "config.to"),
    ],
)
def test_invalid_channel_settings_are_field_errors(api_as, type, values, field):
    answer = post_channel(api_as, type=type, config=values)
    assert (answer.status_code, list(answer.json["errors"])) == (422, [field])


def test_channel_values_may_be_strings(api_as):
    config = {
        "url": "https://192.88.98.7/",
        "connect_timeout": "5",
        "timeout": "10",
        "verify_ssl": "false",
        "headers": '{"X-A": "b"}',
    }
    assert post_channel(api_as, type="webhook", config=config).status_code == 200
    stored = session.scalars(select(NotificationChannel)).one().config
    assert (stored["timeout"], stored["verify_ssl"], stored["headers"]) == (10, False, {"X-A": "b"})


def test_numbers_of_rules_and_channels_are_limited(api_as):
    settings.update({"max_alert_rules": 1, "max_notification_channels": 1})
    assert [post_rule(api_as).status_code, post_rule(api_as).status_code] == [200, 422]
    assert [post_channel(api_as).status_code, post_channel(api_as).status_code] == [200, 422]


def test_member_with_chosen_instances_sees_only_rules_of_them(api_as, cast):
    instance = cast.instance()
    post_rule(api_as), post_rule(api_as, resource_id=instance.id)
    assert api_as("viewer", "GET", "/api/alert-rules").json["alert_rules"]["total"] == 2
    assert api_as("member", "GET", "/api/alert-rules").json["alert_rules"]["total"] == 0
    for resource_id in (None, instance.id):
        assert list(post_rule(api_as, "member", resource_id=resource_id).json["errors"]) == ["resource_id"]
