"""Alerts and channels on the pages."""

from sqlalchemy import select

from panel.core.db import session
from panel.models import Account, AlertRule, NotificationChannel
from panel.services import accounts
from tests.alert_rules.values import RULE


def test_rule_form_creates_changes_and_deletes(browser_as, cast, create_channel):
    browser, channel, instance = browser_as("owner"), create_channel(), cast.instance(display_name="web-1")
    assert "No alert rules yet" in browser.get("/alert-rules").text
    assert "web-1" in browser.get("/alert-rules/new").text
    data = {**RULE, "duration": 300, "resource_id": instance.id, "channel_ids": channel.id}
    assert browser.post("/alert-rules/new", data=data).status_code == 303
    rule = session.scalars(select(AlertRule)).one()
    assert (rule.account_id, rule.duration, rule.channels) == (cast.owner.id, 300, [channel])
    assert "CPU usage: above 90 %" in browser.get("/alert-rules").text
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


def test_conditions_fit_plural_metrics(browser_as, create_rule, cast):
    create_rule(metric="disk_read_bytes", operator="gte", threshold=5e6)
    assert "Disk reads: at least 5 MB/s" in browser_as("owner").get("/alert-rules").text
    session.get(Account, cast.owner.id).language = "de"
    session.commit()
    assert "mindestens 5 MB/s" in browser_as("owner").get("/alert-rules").text


def test_rule_form_names_a_threshold_out_of_range(browser_as):
    answer = browser_as("owner").post("/alert-rules/new", data={**RULE, "threshold": "2" + 15 * "0"})
    assert "This number is too large or too small." in answer.text


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


def test_webhook_form_takes_headers_and_time_outs(browser_as, cast):
    browser, new = browser_as("owner"), "/notification-channels/new?type=webhook"
    data = {"name": "hook", "url": "https://192.88.98.7/x", "headers": "X-Team: ops\r\nX-Key: a:b", "timeout": "7"}
    for field, value in (("headers", "no colon"), ("headers", "X-A: 1\nx-a: 2"), ("connect_timeout", "31")):
        answer = browser.post(new, data={**data, field: value})
        assert answer.status_code == 422
        assert f'id="wrong-{field}"' in answer.text
    assert browser.post(new, data={**data, "verify_ssl": "false", "method": ""}).status_code == 303
    channel = session.scalars(select(NotificationChannel)).one()
    config = channel.config
    assert config["headers"] == {"X-Team": "ops", "X-Key": "a:b"}
    assert (config["timeout"], config["connect_timeout"], config["verify_ssl"], config["method"]) == (
        7,
        5,
        False,
        "POST",
    )
    assert "X-Key" not in browser.get(f"/notification-channels/{channel.id}/edit").text


def test_page_shows_the_reason_of_no_data(browser_as, cast, create_rule, evaluate_at):
    cast.instance()
    cpu, disk = create_rule(), create_rule(metric="disk_pct", name="disk")
    evaluate_at(0)
    browser = browser_as("owner")
    assert "it is off, or its hypervisor does not report" in browser.get(f"/alert-rules/{cpu.id}").text
    assert "no file system report of its guest agent" in browser.get(f"/alert-rules/{disk.id}").text


def test_pages_show_that_rules_of_a_suspended_account_are_paused(browser_as, cast, create_rule):
    rule, browser = create_rule(), browser_as("owner")
    assert "Alerts are paused" not in browser.get("/alert-rules").text
    accounts.suspend(cast.owner)
    session.commit()
    for path in ("/alert-rules", f"/alert-rules/{rule.id}"):
        assert "Alerts are paused" in browser.get(path).text
    assert "Paused: the account is suspended" in browser_as("admin").get("/admin/alert-rules").text


def test_activity_names_the_alert(browser_as, cast, create_rule, evaluate_at):
    instance = cast.instance(display_name="web-1")
    create_rule()
    evaluate_at(0, 95, instance)
    evaluate_at(1, 20, instance)
    page = browser_as("owner").get("/activity").text
    assert "no longer sets off the alert CPU" in page
    assert "> set off the alert CPU" in page


def test_operators_see_all_rules_and_switch_them_off(browser_as, cast, create_rule, evaluate_at):
    instance = cast.instance(display_name="web-1")
    rule = create_rule(resource_id=instance.id, name="rule of owner")
    create_rule("outsider", name="other rule")
    evaluate_at(0, 95, instance)
    browser, path = browser_as("admin"), "/admin/alert-rules"
    page = browser.get(path).text
    assert "rule of owner" in page
    assert "other rule" in page
    for query in ("status=firing", "search=owner@", "search=web-1", f"search={instance.id}", "search=of+owner"):
        page = browser.get(f"{path}?{query}").text
        assert "rule of owner" in page
        assert "other rule" not in page
    for query in ("status=off", "status=no_data", "search=nothing"):
        assert "No matching alert rules" in browser.get(f"{path}?{query}").text
    assert "other rule" in browser.get(f"{path}?status=ok").text
    assert browser.post(f"{path}/{rule.id}/disable").status_code == 303
    session.expire_all()
    assert (rule.enabled, rule.status) == (False, "ok")
    assert browser.post(f"{path}/{rule.id}/enable").status_code == 303
    assert rule.enabled
    assert browser_as("owner").get(path).status_code == 403
    assert browser_as("owner").post(f"{path}/{rule.id}/disable").status_code == 403


def test_operators_list_of_rules_takes_a_constant_number_of_queries(browser_as, cast, create_rule, queries):
    browser = browser_as("admin")
    create_rule(resource_id=cast.instance().id)
    browser.get("/admin/alert-rules")
    queries.clear()
    browser.get("/admin/alert-rules")
    few = len(queries)
    for caller in ("owner", "outsider"):
        create_rule(caller, name="more", resource_id=cast.instance(caller).id)
    queries.clear()
    browser.get("/admin/alert-rules")
    assert len(queries) <= few
