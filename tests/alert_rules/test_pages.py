"""Alert rules on the pages."""

from sqlalchemy import select

from panel.core.db import session
from panel.models import AlertRule
from panel.services import alert_rules


def create_alert_rule(account, name="first"):
    alert_rule = alert_rules.create(account, name=name)
    session.commit()
    return alert_rule


def test_alert_rule_form_creates_changes_and_deletes(browser_as, cast):
    browser = browser_as("owner")
    assert "No alert rule yet" in browser.get("/alert-rules").text
    assert browser.post("/alert-rules/new", data={"name": "first", "description": "a note"}).status_code == 303
    alert_rule = session.scalars(select(AlertRule)).one()
    assert (alert_rule.name, alert_rule.account_id) == ("first", cast.owner.id)
    assert "a note" in browser.get("/alert-rules").text
    address = f"/alert-rules/{alert_rule.id}"
    assert 'value="first"' in browser.get(address).text
    assert browser.post(address, data={"name": "second", "description": ""}).status_code == 303
    assert alert_rule.name == "second"
    assert browser.post(f"{address}/delete").status_code == 303
    assert session.scalars(select(AlertRule)).all() == []


def test_form_error_is_shown_at_its_field(browser_as):
    answer = browser_as("owner").post("/alert-rules/new", data={"name": ""})
    assert answer.status_code == 422
    assert 'id="wrong-name"' in answer.text


def test_foreign_alert_rule_page_is_not_found(browser_as, cast):
    alert_rule = create_alert_rule(cast.owner, "of the owner")
    outsider = browser_as("outsider")
    assert outsider.get(f"/alert-rules/{alert_rule.id}").status_code == 404
    assert outsider.post(f"/alert-rules/{alert_rule.id}", data={"name": "mine"}).status_code == 404
    assert outsider.post(f"/alert-rules/{alert_rule.id}/delete").status_code == 404
    assert alert_rule.name not in outsider.get("/alert-rules").text


def test_navigation_and_palette_list_alert_rules(browser_as):
    browser = browser_as("owner")
    assert 'href="/alert-rules"' in browser.get("/").text
    assert "/alert-rules/new" in browser.get("/search?q=alert rule").text
