"""Ids of the owner's resources for the placeholders in paths, for tests/test_access.py."""


def create_ids(api_as):
    body = {"name": "nightly", "retention_count": 1}
    return {"policy_id": api_as("owner", "POST", "/api/backup-policies", json=body).json["policy"]["id"]}
