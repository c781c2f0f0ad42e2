"""Ids of the owner's resources for the placeholders in paths, for tests/test_access.py."""


def create_ids(api_as):
    alert_rule = api_as("owner", "POST", "/api/alert-rules", json={"name": "first"}).json["alert_rule"]
    return {"alert_rule_id": alert_rule["id"]}
