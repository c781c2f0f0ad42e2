"""Customers' alert rules."""

from api import kit
from panel.schemas.alert_rules import AlertEventOut, AlertRuleIn, AlertRuleOut, AlertRulePatch
from panel.schemas.base import PageQuery
from panel.services import alert_rules

user = kit.User("alert_rule", __name__, description="Alert rules")
ALERT_RULE = kit.build_wrapped_schema("alert_rule", AlertRuleOut)
ALERT_RULES = kit.build_wrapped_schema("alert_rules", kit.build_page_schema(AlertRuleOut))
HISTORY = kit.build_page_schema(AlertEventOut)


def get_rule(alert_rule_id):
    return alert_rules.get(alert_rule_id, kit.get_current_access())


@user.get("/alert-rules", op="list", can="monitoring.view", query=PageQuery, out=ALERT_RULES)
def listing():
    """List alert rules."""
    return {"message": None, "alert_rules": kit.paginate(alert_rules.listing(kit.get_current_access()))}


@user.post("/alert-rules", op="create", can="monitoring.manage", body=AlertRuleIn, out=ALERT_RULE)
def create(body):
    """Create an alert rule.

    Rules are evaluated once a minute with the averages of the last minute. The status changes when the values have
    called for it for `duration` seconds, and each change is sent to the channels.
    """
    return {"message": "Alert rule created.", "alert_rule": alert_rules.create(kit.get_current_access(), **body)}


@user.get("/alert-rule/<alert_rule_id>", op="get", can="monitoring.view", out=ALERT_RULE)
def show(alert_rule_id):
    """Get an alert rule."""
    return {"message": None, "alert_rule": get_rule(alert_rule_id)}


@user.patch("/alert-rule/<alert_rule_id>", op="update", can="monitoring.manage", body=AlertRulePatch, out=ALERT_RULE)
def update(body, alert_rule_id):
    """Update an alert rule.

    Only the fields you send are changed. If what is compared or `enabled` changes, the status begins at `ok` again
    without a notification.
    """
    rule = alert_rules.update(get_rule(alert_rule_id), kit.get_current_access(), **body)
    return {"message": "Alert rule updated.", "alert_rule": rule}


@user.delete("/alert-rule/<alert_rule_id>", op="delete", can="monitoring.delete", out=kit.build_result_schema())
def delete(alert_rule_id):
    """Delete an alert rule with its history."""
    alert_rules.delete(get_rule(alert_rule_id))
    return {"message": "Alert rule deleted."}


@user.post(
    "/alert-rule/<alert_rule_id>/acknowledge", op="acknowledge", can="monitoring.manage", out=kit.build_result_schema()
)
def acknowledge(alert_rule_id):
    """Acknowledge an alert.

    No more reminders are sent for what fires now. Returns 409 `not_firing` if nothing does.
    """
    alert_rules.acknowledge(get_rule(alert_rule_id), kit.get_current_access().actor)
    return {"message": "Alert acknowledged."}


@user.get("/alert-rule/<alert_rule_id>/history", op="history", can="monitoring.view", query=PageQuery, out=HISTORY)
def history(alert_rule_id):
    """List what happened with an alert rule, newest first.

    Entries are kept for 90 days.
    """
    return kit.paginate(alert_rules.select_history(get_rule(alert_rule_id)))
