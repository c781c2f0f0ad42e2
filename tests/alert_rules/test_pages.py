"""Alerts and channels on the pages."""

from sqlalchemy import select

from panel.core.db import session
from panel.models import AlertRule, NotificationChannel
from tests.alert_rules.values import RULE


def test_rule_form_creates_changes_and_deletes(browser_as, cast, create_channel):
    browser, channel, instance = browser_as("owner"), create_channel(), cast.instance(display_name="web-1")
    assert "No alert rules yet" in browser.get("/alert-rules").text
    assert "web-1" in browser.get("/alert-rules/new").text
    data = {**RULE, "duration": 300, "resource_id": instance.id, "channel_ids": channel.id}
    assert browser.post("/alert-rules/new", data=data).status_code == 303
    rule = session.scalars(select(AlertRule)).one()
    assert (rule.account_id, rule.duration, rule.channels) == (cast.owner.id, 300, [channel])
    assert "CPU usage is above 90 %" in browser.get("/alert-rules").text
    address = f"/alert-rules/{rule.id}"
    assert "Nothing happened yet" in browser.get(address).text
    assert 'value="90"' in browser.get(f"{address}/edit").text
    changes = {**data, "resource_id": "", "channel_ids": "", "name": "all"}
    assert browser.post(f"{address}/edit", data=changes).status_code == 303
    assert (rule.name, rule.resource_id, rule.channels) == ("all", None, [])
    assert browser.post(f"{address}/disable").status_code == 303
    assert not rule.enabled
    assert browser.post(f"{address}/delete").status_code == 303
    assert session.scalars(select(AlertRule)).all() == []


def test_rule_form_shows_error_at_its_field(browser_as):
    answer = browser_as("owner").post("/alert-rules/new", data={**RULE, "threshold": "much"})
    assert answer.status_code == 422
    assert 'id="wrong-threshold"' in answer.text


def test_firing_rule_is_acknowledged(browser_as, cast, create_rule, evaluate_at):
    rule = create_rule()
    evaluate_at(0, 95, cast.instance(display_name="web-1"))
    browser, address = browser_as("owner"), f"/alert-rules/{rule.id}"
    page = browser.get(address).text
    assert "Needs attention" in page
    assert "web-1" in page
    assert browser.post(f"{address}/acknowledge").status_code == 303
    assert "owner@example.com" in browser.get(address).text


def test_channel_form_creates_tests_and_changes(browser_as, cast):
    browser = browser_as("owner")
    assert "No channels yet" in browser.get("/notification-channels").text
    new = "/notification-channels/new?type=slack"
    assert "webhook_url" in browser.get(new).text
    refused = browser.post(new, data={"name": "chat", "webhook_url": "https://127.0.0.1/x"})
    assert refused.status_code == 422
    assert 'id="wrong-webhook_url"' in refused.text
    data = {"name": "chat", "webhook_url": "https://192.88.98.7/secret-path"}
    assert browser.post(new, data=data).status_code == 303
    channel = session.scalars(select(NotificationChannel)).one()
    assert (channel.type, channel.account_id) == ("slack", cast.owner.id)
    address = f"/notification-channels/{channel.id}"
    assert browser.post(f"{address}/test").status_code == 303
    assert browser.post(f"{address}/edit", data={"name": "renamed", "webhook_url": ""}).status_code == 303
    assert (channel.name, channel.config["webhook_url"]) == ("renamed", data["webhook_url"])
    for path in ("/notification-channels", address, f"{address}/edit"):
        assert "secret-path" not in browser.get(path).text
    assert browser.post(f"{address}/delete").status_code == 303
    assert session.scalars(select(NotificationChannel)).all() == []


def test_foreign_pages_are_not_found(browser_as, create_rule, create_channel):
    outsider = browser_as("outsider")
    for address in (f"/alert-rules/{create_rule().id}", f"/notification-channels/{create_channel().id}"):
        assert outsider.get(address).status_code == 404
        assert outsider.get(f"{address}/edit").status_code == 404
        assert outsider.post(f"{address}/delete").status_code == 404
