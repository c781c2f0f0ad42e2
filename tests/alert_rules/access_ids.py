"""Ids of the owner's resources for the placeholders in paths, for tests/test_access.py."""


def create_ids(api_as):
    channel = api_as("owner", "POST", "/api/notification-channels", json={"name": "mails", "type": "mail"}).json
    rule = {"name": "r", "resource_type": "instance", "metric": "cpu_pct", "operator": "gt", "threshold": 90}
    alert_rule = api_as("owner", "POST", "/api/alert-rules", json=rule).json["alert_rule"]
    return {"alert_rule_id": alert_rule["id"], "channel_id": channel["channel"]["id"]}
